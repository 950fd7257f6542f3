"""Gathers one shard: what the pipeline stored and what stays of the published version, in order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_cluster.config import Config
from rag_cluster.errors import IngestError
from rag_cluster.hashes import Hashes, Words, as_words, digest
from rag_cluster.index import lexical
from rag_cluster.index.reuse import Places
from rag_cluster.schema import (
    DOCUMENT,
    chunk_schema,
    conform,
    indexed_text,
    make_id,
    shard_of,
)
from rag_cluster.storage.files import read_shard, shard_name, write_table
from rag_cluster.work import (
    CHUNKS,
    DOCUMENTS,
    are_current,
    document_keys,
    part_files,
    part_schema,
)

VECTOR_COLUMNS = ["chunk_id", "vector", "truncated", "text_hash"]


@dataclass(frozen=True)
class Job:
    """What all shards of a run are gathered with.

    `old` is the folder of the published version, of `old_shards` shards; `gone` and `listed` are
    those of `changes.Changes`, `current` is that of `work.are_current`. `fits` says that the old
    chunks were made with these settings.
    """

    work: Path
    folder: Path
    old: Path | None
    old_shards: int
    gone: Hashes
    listed: Hashes
    current: Hashes
    fits: bool
    config: Config
    dim: int
    places: Places
    dropped: Hashes = field(default_factory=lambda: Hashes.of([]))  # of ids of documents that go


@dataclass
class Gathered:
    """What the first round found in a shard."""

    documents: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    this_run: Counter[str] = field(default_factory=Counter)
    changes: Counter[str] = field(default_factory=Counter)
    chunks: int = 0
    searchable: int = 0
    truncated_chunks: int = 0
    truncated_tokens: int = 0
    statistics: lexical.Statistics | None = None


def gather_shard(shard: int, job: Job) -> Gathered:
    """Sorts one shard's rows into documents, chunks and vectors files; returns what it found."""
    schema = chunk_schema(job.config.metadata.fields)
    rows = part_schema(job.config.metadata.fields, job.dim)
    parts = _read_parts(job.work, DOCUMENTS, shard, DOCUMENT)
    new = unique_documents(parts.filter(pa.array(are_current(parts, job.current))))
    before = _old_rows(job, DOCUMENTS, shard)
    documents = _with_those_that_stay(new, before, job)
    made = chunks_of(_read_parts(job.work, CHUNKS, shard, rows), documents)
    chunks = _with_old_chunks(job, shard, documents, made, before)
    chunks = _filled(chunks, job)
    documents = documents.sort_by("doc_id")
    order = [("searchable", "descending"), ("doc_id", "ascending"), ("ordinal", "ascending")]
    chunks = chunks.sort_by(order).combine_chunks()
    found = chunks.filter(chunks.column("searchable"))
    _write(documents, job.folder / "documents", shard, row_group_size=1000)
    _write(chunks.select(schema.names), job.folder / "chunks", shard, row_group_size=20_000)
    _write(found.select(VECTOR_COLUMNS), job.folder / "vectors", shard, row_group_size=20_000)
    truncated = pc.fill_null(found.column("truncated"), 0).to_numpy()
    failed = documents.filter(pc.equal(documents.column("status"), "failed"))
    return Gathered(
        documents=Counter(documents.column("status").to_pylist()),
        failures=Counter(failed.column("error").to_pylist()),
        this_run=Counter(
            documents.filter(pa.array(job.listed.holds(_files(documents))))["status"].to_pylist()
        ),
        changes=count_changes(before, documents),
        chunks=chunks.num_rows,
        searchable=found.num_rows,
        truncated_chunks=int((truncated > 0).sum()),
        truncated_tokens=int(truncated.sum()),
        statistics=lexical.statistics(texts_of(found), job.config.index.lexical)
        if job.config.index.lexical.kind == "bm25s"
        else None,
    )


def texts_of(chunks: pa.Table) -> list[str]:
    """What BM25 indexes of each chunk."""
    columns = (chunks.column(name).to_pylist() for name in ("context", "header", "text"))
    return [indexed_text(*parts) for parts in zip(*columns, strict=True)]


def count_changes(before: pa.Table, now: pa.Table) -> Counter[str]:
    """How many documents were added, changed, unchanged and removed."""
    old = dict(zip(before["doc_id"].to_pylist(), document_keys(before), strict=True))
    new = dict(zip(now["doc_id"].to_pylist(), document_keys(now), strict=True))
    both = old.keys() & new.keys()
    unchanged = sum(old[doc] == new[doc] for doc in both)
    return Counter(
        added=len(new) - len(both),
        changed=len(both) - unchanged,
        unchanged=unchanged,
        removed=len(old) - len(both),
    )


def _read_parts(work: Path, kind: str, shard: int, schema: pa.Schema) -> pa.Table:
    tables = [conform(read_shard(path), schema) for path in part_files(work, kind, shard)]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _old_rows(job: Job, kind: str, shard: int, columns: list[str] | None = None) -> pa.Table:
    """A shard's rows of the published version, which may have been cut into other shards."""
    if job.old is None:
        return DOCUMENT.empty_table() if kind == DOCUMENTS else pa.table({})
    same = job.old_shards == job.config.index.shards
    tables = []
    for number in [shard] if same else range(job.old_shards):
        table = read_shard(job.old / kind / f"{shard_name(number)}.parquet", columns=columns)
        if not same:
            homes = [shard_of(d, job.config.index.shards) for d in table["doc_id"].to_pylist()]
            table = table.filter(pa.array(np.array(homes, dtype=np.int64) == shard))
        tables.append(table)
    return pa.concat_tables(tables)


def _with_those_that_stay(new: pa.Table, before: pa.Table, job: Job) -> pa.Table:
    """The new documents, and those of the published version whose file is neither read nor gone.

    A file that was read again is replaced as a whole: its failed rows, and the records that are no
    longer in it, go.
    """
    stays = ~job.gone.holds(_files(before))
    stays &= ~job.dropped.holds(as_words([digest(doc) for doc in before["doc_id"].to_pylist()]))
    taken = pc.is_in(before["doc_id"], value_set=new["doc_id"].combine_chunks()).to_numpy()
    return pa.concat_tables([new, conform(before.filter(pa.array(stays & ~taken)), DOCUMENT)])


def _files(documents: pa.Table) -> Words:
    sources = documents.column("source").to_pylist()
    return as_words([digest((source or {}).get("file") or "") for source in sources])


def _with_old_chunks(
    job: Job, shard: int, documents: pa.Table, made: pa.Table, before: pa.Table
) -> pa.Table:
    """The chunks of this run, and the published ones of documents that did not change."""
    if job.old is None or not job.fits:
        return made
    good = documents.filter(pc.equal(documents.column("status"), "ok"))
    same = Hashes.of(document_keys(before)).holds(as_words(document_keys(good)))
    wanted = good.filter(pa.array(same))["doc_id"].combine_chunks()
    made = made.filter(pc.invert(pc.is_in(made["doc_id"], value_set=wanted)))
    rows = _old_rows(job, "chunks", shard)
    rows = rows.filter(pc.is_in(rows["doc_id"], value_set=wanted))
    vectors = _old_vectors(job, shard)
    at = pc.index_in(rows["chunk_id"], value_set=vectors["chunk_id"].combine_chunks())
    for name in VECTOR_COLUMNS[1:]:
        rows = rows.append_column(name, vectors[name].combine_chunks().take(at.combine_chunks()))
    rows = rows.append_column("reused", pa.array(np.zeros(rows.num_rows, dtype=bool)))
    return pa.concat_tables([made, conform(rows, made.schema)])


def _old_vectors(job: Job, shard: int) -> pa.Table:
    assert job.old is not None
    same = job.old_shards == job.config.index.shards
    return pa.concat_tables(
        read_shard(job.old / "vectors" / f"{shard_name(number)}.parquet", columns=VECTOR_COLUMNS)
        for number in ([shard] if same else range(job.old_shards))
    )


def _filled(chunks: pa.Table, job: Job) -> pa.Table:
    """The chunks with the vectors of those that reuse an equal text's."""
    rows = np.flatnonzero(chunks.column("reused").to_numpy())
    if not len(rows):
        return chunks
    hashes = chunks.column("text_hash").take(pa.array(rows)).to_pylist()
    vectors, truncated, found = job.places.take(as_words(hashes), job.dim)
    if not found.all():
        missing = chunks.slice(int(rows[np.flatnonzero(~found)[0]]), 1).to_pylist()[0]
        raise IngestError(f"chunk {missing['chunk_id']} of {missing['uri']} has no vector")
    return _replaced(chunks, rows, vectors, truncated, job.dim)


def _replaced(
    chunks: pa.Table,
    rows: NDArray[np.intp],
    vectors: NDArray[np.float32],
    truncated: NDArray[np.int32],
    dim: int,
) -> pa.Table:
    column = chunks.column("vector").combine_chunks()
    place = np.arange(chunks.num_rows)
    place[rows] = chunks.num_rows + np.arange(len(rows))
    more = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), dim)
    filled = pa.concat_arrays([column, more.cast(column.type)]).take(pa.array(place))
    counts = pc.fill_null(chunks.column("truncated"), 0).to_numpy().copy()
    counts[rows] = truncated
    for name, array in (("vector", filled), ("truncated", pa.array(counts, pa.int32()))):
        chunks = chunks.set_column(chunks.schema.get_field_index(name), name, array)
    return chunks


def unique_documents(documents: pa.Table) -> pa.Table:
    """Each document once.

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
    unique = documents.take(pa.array(keep, pa.int64()))
    return pa.concat_tables([unique, pa.Table.from_pylist(failed, DOCUMENT)])


def _duplicate(row: dict[str, Any], first: str) -> dict[str, Any]:
    empty: dict[str, Any] = {"text": "", "pages": [], "sections": [], "tables": []}
    return row | empty | {
        "doc_id": make_id("duplicate", row["doc_id"], row["uri"], row["content_hash"]),
        "status": "failed",
        "error": "duplicate id",
        "detail": f"another document of {first} has the same id",
    }  # fmt: skip


def chunks_of(chunks: pa.Table, documents: pa.Table) -> pa.Table:
    """The chunks of documents that are ok, each once; of equal ones the one that has its vector."""
    good = documents.filter(pc.equal(documents.column("status"), "ok"))
    names = ["doc_id", "uri", "content_hash"]
    wanted = set(zip(*(good[name].to_pylist() for name in names), strict=True))
    chunks = chunks.take(np.argsort(chunks.column("reused").to_numpy(), kind="stable"))
    seen: set[str] = set()
    rows = []
    columns = (chunks[name].to_pylist() for name in ("chunk_id", *names))
    for row, (chunk, *document) in enumerate(zip(*columns, strict=True)):
        if chunk not in seen and tuple(document) in wanted:
            seen.add(chunk)
            rows.append(row)
    return chunks.take(pa.array(rows, pa.int64()))


def _write(table: pa.Table, folder: Path, shard: int, row_group_size: int) -> None:
    path = folder / f"{shard_name(shard)}.parquet"
    write_table(table, path, row_group_size=row_group_size)
