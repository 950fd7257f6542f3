"""Gathers one shard: what the pipeline stored and what stays of the published version, in order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_cluster import generated
from rag_cluster.errors import IngestError
from rag_cluster.hashes import Hashes, as_words
from rag_cluster.index import lexical
from rag_cluster.index.documents import (
    Job,
    count_changes,
    marked,
    new_documents,
    old_rows,
    read_parts,
    with_those_that_stay,
)
from rag_cluster.schema import GENERATED, chunk_schema, conform, indexed_text
from rag_cluster.storage.files import read_shard, shard_name, write_table
from rag_cluster.work import (
    CHUNKS,
    DOCUMENTS,
    SPARSE,
    document_keys,
    file_digests,
    last_cut,
    part_schema,
)

LEFT_OUT = "left_out"


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
    weights: int = 0  # of learned sparse vectors
    facts: Counter[str] = field(default_factory=Counter)  # see `count_facts`
    statistics: lexical.Statistics | None = None


def gather_shard(shard: int, job: Job) -> Gathered:
    """Sorts one shard's rows into documents, chunks and vectors files; returns what it found.

    What is not indexed, as its document is a near-duplicate, goes to a file `left_out`, so that it
    need not be made again when that changes.
    """
    schema = chunk_schema(job.config.metadata.fields)
    sparse = job.config.sparse.model is not None
    rows = part_schema(job.config.metadata.fields, job.dim, sparse=sparse)
    new, before = new_documents(shard, job), old_rows(job, DOCUMENTS, shard)
    documents = marked(with_those_that_stay(new, before, job), job.duplicates)
    made = chunks_of(last_cut(read_parts(job.work, CHUNKS, shard, rows)), documents)
    chunks = _with_old_chunks(job, shard, documents, made, before)
    chunks = _filled(chunks, job)
    documents = documents.sort_by("doc_id")
    order = [("searchable", "descending"), ("doc_id", "ascending"), ("ordinal", "ascending")]
    chunks = _without_left_out(chunks.sort_by(order).combine_chunks(), shard, job)
    found = chunks.filter(chunks.column("searchable"))
    _write(documents, job.folder / "documents", shard, row_group_size=1000)
    if job.config.writes is not None:
        written = _written(shard, job, documents)
        _write(written, job.folder / generated.FOLDER, shard, row_group_size=2000)
    _write(chunks.select(schema.names), job.folder / "chunks", shard, row_group_size=20_000)
    vectors = found.select(vector_columns(job))
    _write(vectors, job.folder / "vectors", shard, row_group_size=20_000)
    truncated = pc.fill_null(found.column("truncated"), 0).to_numpy()
    failed = documents.filter(pc.equal(documents.column("status"), "failed"))
    return Gathered(
        documents=Counter(documents.column("status").to_pylist()),
        failures=Counter(failed.column("error").to_pylist()),
        this_run=Counter(
            documents.filter(pa.array(job.listed.holds(file_digests(documents))))[
                "status"
            ].to_pylist()
        ),
        changes=count_changes(before, documents),
        chunks=chunks.num_rows,
        searchable=found.num_rows,
        truncated_chunks=int((truncated > 0).sum()),
        truncated_tokens=int(truncated.sum()),
        weights=pc.sum(pc.list_value_length(found["terms"])).as_py() or 0 if sparse else 0,
        facts=count_facts(chunks) if job.config.writes == "facts" else Counter(),
        statistics=lexical.statistics(texts_of(found), job.config.index.lexical)
        if job.config.index.lexical.kind == "bm25s"
        else None,
    )


def count_facts(chunks: pa.Table) -> Counter[str]:
    """How many `facts` there are, of how many `chunks`, and how many chunks are `without` any.

    These are indexed as they were cut. Tables, and what is no body text, are not counted.
    """
    facts = chunks.filter(pc.equal(chunks["kind"], "proposition"))
    whole = chunks.filter(chunks["searchable"])
    whole = whole.filter(pc.is_in(whole["kind"], value_set=pa.array(["section", "fragment"])))
    return Counter(
        facts=facts.num_rows,
        chunks=len(pc.unique(facts["parent_id"])),
        without=pc.sum(pc.equal(whole["role"], "body")).as_py() or 0,
    )


def vector_columns(job: Job) -> list[str]:
    """The columns of a version's files of vectors."""
    sparse = [] if job.config.sparse.model is None else SPARSE.names
    return ["chunk_id", "vector", "truncated", "text_hash", *sparse]


def _written(shard: int, job: Job, documents: pa.Table) -> pa.Table:
    """What a language model wrote for the documents: in this run, else in the published version.

    A run's files have all that its documents need, taken over from before or new.
    """
    new = read_parts(job.work, generated.FOLDER, shard, GENERATED)
    before = old_rows(job, generated.FOLDER, shard)
    if before.num_rows:
        again = pc.is_in(before["doc_id"], value_set=pc.unique(new["doc_id"]))
        before = conform(before.filter(pc.invert(again)), GENERATED)
    else:
        before = GENERATED.empty_table()
    rows = generated.merged([before, new])
    good = documents.filter(pc.equal(documents.column("status"), "ok"))
    return rows.filter(pc.is_in(rows["doc_id"], value_set=good["doc_id"].combine_chunks()))


def texts_of(chunks: pa.Table) -> list[str]:
    """What BM25 indexes of each chunk."""
    columns = (chunks.column(name).to_pylist() for name in ("context", "header", "text"))
    return [indexed_text(*parts) for parts in zip(*columns, strict=True)]


def _without_left_out(chunks: pa.Table, shard: int, job: Job) -> pa.Table:
    """The chunks that are indexed; the others are written to a file of their own."""
    if job.config.duplicates.near != "index_once":
        return chunks
    left = pc.is_in(chunks["doc_id"], value_set=job.duplicates["doc_id"].combine_chunks())
    out = chunks.filter(left)
    if out.num_rows:
        # What is not searchable has no vector, as in a version's own files.
        truncated = pc.if_else(out["searchable"], out["truncated"], pa.scalar(None, pa.int32()))
        out = out.set_column(out.schema.get_field_index("truncated"), "truncated", truncated)
        _write(out.drop_columns(["reused"]), job.folder / LEFT_OUT, shard, row_group_size=20_000)
    return chunks.filter(pc.invert(left)).combine_chunks()


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
    rows = old_rows(job, CHUNKS, shard)
    rows = rows.filter(pc.is_in(rows["doc_id"], value_set=wanted))
    vectors = _old_vectors(job, shard)
    at = pc.index_in(rows["chunk_id"], value_set=vectors["chunk_id"].combine_chunks())
    for name in vector_columns(job)[1:]:
        rows = rows.append_column(name, vectors[name].combine_chunks().take(at.combine_chunks()))
    out = old_rows(job, LEFT_OUT, shard)
    if out.num_rows:
        rows = pa.concat_tables([rows, out.filter(pc.is_in(out["doc_id"], value_set=wanted))])
    rows = rows.append_column("reused", pa.array(np.zeros(rows.num_rows, dtype=bool)))
    return pa.concat_tables([made, conform(rows, made.schema)])


def _old_vectors(job: Job, shard: int) -> pa.Table:
    assert job.old is not None
    same = job.old_shards == job.config.index.shards
    return pa.concat_tables(
        read_shard(
            job.old / "vectors" / f"{shard_name(number)}.parquet", columns=vector_columns(job)
        )
        for number in ([shard] if same else range(job.old_shards))
    )


def _filled(chunks: pa.Table, job: Job) -> pa.Table:
    """The chunks with the vectors of those that reuse an equal text's."""
    rows = np.flatnonzero(chunks.column("reused").to_numpy())
    if not len(rows):
        return chunks
    hashes = chunks.column("text_hash").take(pa.array(rows)).to_pylist()
    # In late chunking a sparse vector is made for each chunk: it knows the context.
    own = SPARSE.names if job.config.embed.mode == "late" else []
    columns = [n for n in vector_columns(job) if n not in ("chunk_id", "text_hash", *own)]
    taken, found = job.places.take(as_words(hashes), columns)
    if not found.all():
        missing = chunks.slice(int(rows[np.flatnonzero(~found)[0]]), 1).to_pylist()[0]
        raise IngestError(f"chunk {missing['chunk_id']} of {missing['uri']} has no vector")
    mine = chunks["truncated"].take(pa.array(rows))
    counts = pc.max_element_wise(mine, taken["truncated"])
    at = taken.schema.get_field_index("truncated")
    return _replaced(chunks, rows, taken.set_column(at, "truncated", counts))


def _replaced(chunks: pa.Table, rows: NDArray[np.intp], taken: pa.Table) -> pa.Table:
    """The chunks with other values in some rows and the columns of `taken`."""
    place = np.arange(chunks.num_rows)
    place[rows] = chunks.num_rows + np.arange(len(rows))
    for name in taken.column_names:
        column = chunks[name].combine_chunks()
        more = taken[name].combine_chunks().cast(column.type)
        filled = pa.concat_arrays([column, more]).take(pa.array(place))
        chunks = chunks.set_column(chunks.schema.get_field_index(name), name, filled)
    return chunks


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
