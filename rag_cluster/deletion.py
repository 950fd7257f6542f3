"""Removing documents on request: a new version without them, and the proof that nothing is left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_cluster import cluster, generated
from rag_cluster.config import Config
from rag_cluster.errors import IngestError, UsageError
from rag_cluster.fields import read_fields
from rag_cluster.hashes import Hashes, digest
from rag_cluster.index import build
from rag_cluster.index.documents import Job
from rag_cluster.index.filters import Filter, parse_filter
from rag_cluster.index.reuse import Places
from rag_cluster.progress import Progress
from rag_cluster.schema import FILE, chunk_schema
from rag_cluster.storage import Collection, Writer, read_shard
from rag_cluster.storage import versions as storage

EXAMPLES = 5


def delete(
    path: str | Path, documents: Sequence[str] = (), where: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Publishes a version without the named documents and those that the filter allows.

    `documents` are uris, ids or file names; the uri of a file of records stands for all of them.
    Returns {"collection", "version", "deleted": uris, "left": {...: 0}, "older_versions"}, where
    `left` counts what the new version still has of them; it is not published unless all are 0.
    Older versions have them until they are pruned. Raises UsageError where nothing is meant.
    """
    if isinstance(documents, str):  # each letter of it would be one
        raise UsageError(f"documents are a list: [{documents!r}]")
    if not documents and where is None:
        raise UsageError("say what to delete: --document URI, or --filter JSON")
    config = Collection.open(path).config
    _find(path, documents, where)  # a mistake is told before Ray is started
    with (
        cluster.session(config),
        Writer(path) as writer,
        cluster.explained(writer.path),
        Progress.start(FILE.empty_table()) as progress,
    ):
        # Looked up again: another process may have published until the lock was held.
        opened, doomed = _find(path, documents, where)
        manifest = build.build(
            writer, _job(writer, opened, config, doomed), opened.manifest["encoder"], progress
        )
        manifest["llm"] = opened.manifest.get("llm")
        manifest |= {"sources": opened.manifest["sources"], "seconds": 0.0,
                     "work": {"files": 0, "documents": 0, "texts": 0}}  # fmt: skip
        left = leftovers(Collection(writer.path, writer.version, manifest), opened, doomed)
        if any(left.values()):
            raise IngestError(f"the new version would still hold something of them: {left}")
        build.publish(writer, manifest, config)
    older = [row["version"] for row in storage.list_versions(path)]
    return {
        "collection": str(writer.path),
        "version": writer.version,
        "deleted": sorted(doomed.values()),
        "left": left,
        "older_versions": [name for name in older if name != writer.version],
    }


def _find(
    path: str | Path, documents: Sequence[str], where: dict[str, Any] | None
) -> tuple[Collection, dict[str, str]]:
    opened = Collection.open(path)
    doomed = _doomed(opened, documents, parse_filter(where, opened.fields))
    if not doomed:
        raise UsageError(f"no document of {path} fits the filter: nothing was deleted")
    return opened, doomed


def _doomed(opened: Collection, names: Sequence[str], wanted: Filter | None) -> dict[str, str]:
    """The ids of the documents that are meant, each with its uri. Raises UsageError."""
    found: dict[str, str] = {}
    table = opened.documents(["doc_id", "uri", "source"])
    uri_of = dict(zip(table["doc_id"].to_pylist(), table["uri"].to_pylist(), strict=True))
    for name in names:
        ids = _named(opened, table, name)
        found |= {doc: uri_of[doc] for doc in ids}
    if wanted is not None:
        for shard in range(opened.shards):
            chunks = opened.all_chunks(shard)
            for rows in (chunks, _without_chunks(opened, shard, chunks)):
                kept = rows.filter(pa.array(wanted.mask(rows)))
                found |= {doc: uri_of[doc] for doc in pc.unique(kept["doc_id"]).to_pylist()}
    return found


def _without_chunks(opened: Collection, shard: int, chunks: pa.Table) -> pa.Table:
    """The documents that have no chunk, with what a filter can name as if they had one."""
    columns = ["doc_id", "uri", "title", "metadata"]
    documents = read_shard(opened.shard_path("documents", shard), columns=columns)
    left = pc.invert(pc.is_in(documents["doc_id"], value_set=pc.unique(chunks["doc_id"])))
    rows = [
        row | read_fields(row["metadata"], opened.fields)
        for row in documents.filter(left).to_pylist()
    ]
    return pa.Table.from_pylist(rows, chunk_schema(opened.fields))


def _named(opened: Collection, table: pa.Table, name: str) -> list[str]:
    sources = table["source"].to_pylist()
    of_file = [
        (one or {}).get("file") in (name, Path(name).absolute().as_posix()) for one in sources
    ]
    ids: list[str] = table.filter(pa.array(of_file, pa.bool_()))["doc_id"].to_pylist()
    ids = ids or opened.find_documents(name)
    if not ids:
        raise UsageError(
            f"no document {name!r} in {opened.path}: name its uri, id or file name "
            f"('rag-cluster inspect --collection {opened.path} --chunks' shows them)"
        )
    uris = [str((opened.document(doc, ["uri"]) or {})["uri"]) for doc in ids[:EXAMPLES]]
    if len(ids) > 1 and not any(of_file):
        raise UsageError(f"{len(ids)} documents are named {name!r}, such as {', '.join(uris)}")
    return ids


def _job(writer: Writer, opened: Collection, config: Config, doomed: dict[str, str]) -> Job:
    return Job(
        work=writer.work,
        folder=writer.folder,
        old=opened.folder,
        old_shards=opened.shards,
        gone=Hashes.of([]),
        listed=Hashes.of([]),
        current=Hashes.of([]),
        fits=True,
        config=config,
        dim=opened.manifest["encoder"]["dim"],
        places=Places.none(),
        dropped=Hashes.of(digest(doc) for doc in doomed),
    )


def leftovers(made: Collection, before: Collection, doomed: dict[str, str]) -> dict[str, int]:
    """What a version still holds of documents, counted in its files; all 0 if nothing is left.

    `dense`, `postings` and `sparse` are rows of the FAISS, BM25 and sparse indexes beyond those of
    chunks that stay: an index has a row for each searchable chunk, so none is left for one that
    went.
    """
    ids = pa.array(sorted(doomed), pa.string())
    left = dict.fromkeys(("documents", "chunks", "vectors", "dense", "postings", "sparse"), 0)
    went = [
        chunk
        for shard in range(before.shards)
        for chunk in _chunks_of(before, shard, ids)["chunk_id"].to_pylist()
    ]
    for shard in range(made.shards):
        left["documents"] += _documents_of(made, shard, ids)
        left["chunks"] += _chunks_of(made, shard, ids).num_rows
        vectors = read_shard(made.shard_path("vectors", shard), columns=["chunk_id"])["chunk_id"]
        left["vectors"] += (
            pc.sum(pc.is_in(vectors, value_set=pa.array(went, pa.string()))).as_py() or 0
        )
        for kind, rows in _indexed_rows(made, shard).items():
            left[kind] += rows - len(vectors)
    if made.manifest["lexical"]["kind"] == "elasticsearch":
        left["postings"] = _on_server(made, sorted(doomed))
    return left


def _documents_of(version: Collection, shard: int, ids: pa.Array) -> int:
    """How many rows a shard has of documents, of their signatures, or of what was written."""
    kinds = ("documents", "duplicates", generated.FOLDER)
    paths = [version.shard_path(kind, shard) for kind in kinds]
    there = [path for path in paths if path.exists()]
    rows = [read_shard(path, columns=["doc_id"])["doc_id"] for path in there]
    return sum(pc.sum(pc.is_in(column, value_set=ids)).as_py() or 0 for column in rows)


def _chunks_of(version: Collection, shard: int, ids: pa.Array) -> pa.Table:
    table = version.all_chunks(shard, ["doc_id", "chunk_id"])
    return table.filter(pc.is_in(table["doc_id"], value_set=ids))


def _indexed_rows(made: Collection, shard: int) -> dict[str, int]:
    from rag_cluster.index.dense import DenseShard
    from rag_cluster.index.lexical import LexicalShard

    config = made.config.index
    rows = {"dense": DenseShard.open(made.local_path("dense", shard), config.dense).size}
    if config.lexical.kind == "bm25s":
        path = made.local_path("lexical", shard)
        rows["postings"] = LexicalShard.open(path, config.lexical).size
    if made.config.sparse.model is not None and config.lexical.kind != "elasticsearch":
        from rag_cluster.index.sparse import SparseShard

        rows["sparse"] = SparseShard.open(made.local_path("sparse", shard)).size
    return rows


def _on_server(made: Collection, doomed: list[str]) -> int:
    from rag_cluster.index.elastic import count_documents

    return count_documents(made.manifest, made.config, doomed)
