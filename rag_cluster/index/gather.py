"""Gathers one shard: what the pipeline stored and what stays of the published version, in order."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rag_cluster.config import Config
from rag_cluster.errors import CollectionError
from rag_cluster.index import lexical
from rag_cluster.schema import (
    DOCUMENT,
    chunk_schema,
    conform,
    indexed_text,
    make_id,
    vector_type,
)
from rag_cluster.storage import shard_name


@dataclass
class Gathered:
    """What the first round found in a shard."""

    documents: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    this_run: Counter[str] = field(default_factory=Counter)
    chunks: int = 0
    searchable: int = 0
    truncated_chunks: int = 0
    truncated_tokens: int = 0
    statistics: lexical.Statistics | None = None


def gather_shard(
    shard: int,
    work: Path,
    folder: Path,
    old: Path | None,
    *,
    files: frozenset[str],
    fits: bool,
    config: Config,
    dim: int,
) -> Gathered:
    """Sorts one shard's rows into documents, chunks and vectors files; returns what it found."""
    schema = chunk_schema(config.metadata.fields)
    rows = schema.append(pa.field("vector", vector_type(dim))).append(
        pa.field("truncated", pa.int32())
    )
    documents, claimed = unique_documents(_read_parts(work / "documents", shard, DOCUMENT))
    this_run = Counter(documents.column("status").to_pylist())
    chunks = chunks_of(_read_parts(work / "chunks", shard, rows), documents, claimed)
    if old is not None:
        documents, chunks = _carry_over(old, shard, documents, chunks, files, fits=fits)
    documents = documents.sort_by("doc_id")
    order = [("searchable", "descending"), ("doc_id", "ascending"), ("ordinal", "ascending")]
    chunks = chunks.sort_by(order).combine_chunks()
    found = chunks.filter(chunks.column("searchable"))
    _write(documents, folder / "documents", shard, row_group_size=1000)
    _write(chunks.select(schema.names), folder / "chunks", shard, row_group_size=20_000)
    vectors = found.select(["chunk_id", "vector", "truncated"])
    _write(vectors, folder / "vectors", shard, row_group_size=20_000)
    truncated = pc.fill_null(found.column("truncated"), 0).to_numpy()
    failed = documents.filter(pc.equal(documents.column("status"), "failed"))
    return Gathered(
        documents=Counter(documents.column("status").to_pylist()),
        failures=Counter(failed.column("error").to_pylist()),
        this_run=this_run,
        chunks=chunks.num_rows,
        searchable=found.num_rows,
        truncated_chunks=int((truncated > 0).sum()),
        truncated_tokens=int(truncated.sum()),
        statistics=lexical.statistics(texts_of(found), config.index.lexical)
        if config.index.lexical.kind != "none"
        else None,
    )


def texts_of(chunks: pa.Table) -> list[str]:
    """What BM25 indexes of each chunk."""
    columns = (chunks.column(name).to_pylist() for name in ("context", "header", "text"))
    return [indexed_text(*parts) for parts in zip(*columns, strict=True)]


def _read_parts(folder: Path, shard: int, schema: pa.Schema) -> pa.Table:
    files = sorted((folder / shard_name(shard)).glob("*.parquet"))
    tables = [conform(pq.read_table(file), schema) for file in files]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def unique_documents(documents: pa.Table) -> tuple[pa.Table, set[str]]:
    """Each document once, and the ids that more than one document claimed.

    Rows that are equal (a task that ran twice) are one document. Of different documents with one
    id the first by (uri, content hash) keeps it; each other becomes a failed row of its own.
    """
    keys = ["doc_id", "uri", "content_hash"]
    documents = documents.sort_by([(key, "ascending") for key in keys])
    keep: list[int] = []
    failed: list[dict[str, Any]] = []
    owner: dict[str, Any] = {}
    before: dict[str, Any] = {}
    for i, row in enumerate(documents.select(keys).to_pylist()):
        if row == before:
            continue
        before = row
        if row["doc_id"] != owner.get("doc_id"):
            owner = row
            keep.append(i)
        else:
            failed.append(_duplicate(documents.slice(i, 1).to_pylist()[0], owner["uri"]))
    claimed = {row.pop("claimed") for row in failed}
    unique = documents.take(pa.array(keep, pa.int64()))
    return pa.concat_tables([unique, pa.Table.from_pylist(failed, DOCUMENT)]), claimed


def _duplicate(row: dict[str, Any], first: str) -> dict[str, Any]:
    empty: dict[str, Any] = {"text": "", "pages": [], "sections": [], "tables": []}
    return row | empty | {
        "claimed": row["doc_id"],
        "doc_id": make_id("duplicate", row["doc_id"], row["uri"], row["content_hash"]),
        "status": "failed",
        "error": "duplicate id",
        "detail": f"another document of {first} has the same id",
    }  # fmt: skip


def chunks_of(chunks: pa.Table, documents: pa.Table, claimed: set[str]) -> pa.Table:
    """The chunks of documents that are ok, each once. `claimed` ids are checked by their text."""
    good = documents.filter(pc.equal(documents.column("status"), "ok"))
    wanted = set(zip(good["doc_id"].to_pylist(), good["uri"].to_pylist(), strict=True))
    disputed = good.filter(pc.is_in(good["doc_id"], value_set=pa.array(claimed, pa.string())))
    texts = dict(zip(disputed["doc_id"].to_pylist(), disputed["text"].to_pylist(), strict=True))
    seen: set[str] = set()
    rows = []
    names = ["chunk_id", "doc_id", "uri"]
    for row, values in enumerate(zip(*(chunks[n].to_pylist() for n in names), strict=True)):
        chunk, doc, uri = values
        if chunk in seen or (doc, uri) not in wanted:
            continue
        if doc in texts:
            found = chunks.select(["start", "end", "text"]).slice(row, 1).to_pylist()[0]
            if texts[doc][found["start"] : found["end"]] != found["text"]:
                continue
        seen.add(chunk)
        rows.append(row)
    return chunks.take(pa.array(rows, pa.int64()))


def _is_of(uri: str, files: frozenset[str]) -> bool:
    """Whether the uri is one of the files, or a record or part ("FILE#name") of one."""
    return uri in files or any(uri[: m.start()] in files for m in re.finditer("#", uri))


def _carry_over(
    old: Path,
    shard: int,
    documents: pa.Table,
    chunks: pa.Table,
    files: frozenset[str],
    *,
    fits: bool,
) -> tuple[pa.Table, pa.Table]:
    """Adds what the published version holds of files that this run did not read.

    A file that was read again is replaced as a whole: its failed rows, and the records that are no
    longer in it, go.
    """
    name = f"{shard_name(shard)}.parquet"
    path = old / "documents" / name
    if not path.exists():
        return documents, chunks
    before = pq.read_table(path)
    new_ids = documents.column("doc_id")
    stay = before.filter(pc.invert(pc.is_in(before["doc_id"], value_set=new_ids)))
    stay = stay.filter(
        pa.array([not _is_of(uri, files) for uri in stay["uri"].to_pylist()], pa.bool_())
    )
    if not stay.num_rows:
        return documents, chunks
    if not fits:
        raise CollectionError(
            f"the collection holds {stay['uri'][0].as_py()} and other documents that are not among "
            "these sources, and it was made with other settings (chunk, enrich, embed, metadata or "
            "index.shards): ingest all sources together, use the same settings, or make a new "
            "collection"
        )
    rows = pq.read_table(old / "chunks" / name)
    vectors = pq.read_table(old / "vectors" / name)
    padding = pa.nulls(rows.num_rows - vectors.num_rows, vectors.schema.field("vector").type)
    none = pa.nulls(rows.num_rows - vectors.num_rows, pa.int32())
    rows = rows.append_column(
        "vector", pa.chunked_array([*vectors["vector"].chunks, padding])
    ).append_column("truncated", pa.chunked_array([*vectors["truncated"].chunks, none]))
    rows = rows.filter(pc.is_in(rows["doc_id"], value_set=stay["doc_id"]))
    return (
        pa.concat_tables([documents, conform(stay, DOCUMENT)]),
        pa.concat_tables([chunks, conform(rows, chunks.schema)]),
    )


def _write(table: pa.Table, folder: Path, shard: int, row_group_size: int) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / f"{shard_name(shard)}.parquet"
    pq.write_table(table, path, compression="zstd", row_group_size=row_group_size)
