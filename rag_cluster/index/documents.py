"""The documents of a shard: what a run has read, and what stays of the published version."""

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
from rag_cluster.hashes import Hashes, as_words, digest
from rag_cluster.index.reuse import Places
from rag_cluster.schema import DOCUMENT, conform, make_id, shard_of
from rag_cluster.storage.files import read_shard, shard_name
from rag_cluster.work import (
    CHUNKS,
    DOCUMENTS,
    are_current,
    document_keys,
    file_digests,
    part_files,
)


def no_duplicates() -> pa.Table:
    """A table of no near-duplicates."""
    return pa.schema([("doc_id", pa.string()), ("duplicate_of", pa.string())]).empty_table()


@dataclass(frozen=True)
class Job:
    """What all shards of a run are gathered with.

    `old` is the folder of the published version, of `old_shards` shards; `gone` and `listed` are
    those of `changes.Changes`, `current` is that of `work.are_current`. `fits` says that the old
    chunks were made with these settings. `duplicates` (doc_id, duplicate_of) are the near-duplicate
    documents.
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
    duplicates: pa.Table = field(default_factory=no_duplicates)


def new_documents(shard: int, job: Job) -> pa.Table:
    """The shard's documents (DOCUMENT) that were read for this run."""
    parts = read_parts(job.work, DOCUMENTS, shard, DOCUMENT)
    return unique_documents(parts.filter(pa.array(are_current(parts, job.current))))


def read_parts(work: Path, kind: str, shard: int, schema: pa.Schema) -> pa.Table:
    """The rows of a shard's parts of a kind."""
    tables = [conform(read_shard(path), schema) for path in part_files(work, kind, shard)]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def old_rows(job: Job, kind: str, shard: int, columns: list[str] | None = None) -> pa.Table:
    """A shard's rows of the published version, which may have been cut into other shards.

    An empty table where there is no such version, or it has no such files.
    """
    none = DOCUMENT.empty_table().select(columns or DOCUMENT.names)
    none = none if kind == DOCUMENTS else pa.table({})
    if job.old is None:
        return none
    same = job.old_shards == job.config.index.shards
    tables = []
    for number in [shard] if same else range(job.old_shards):
        path = job.old / kind / f"{shard_name(number)}.parquet"
        if kind not in (DOCUMENTS, CHUNKS) and not path.exists():
            continue
        table = read_shard(path, columns=columns)
        if not same:
            homes = [shard_of(d, job.config.index.shards) for d in table["doc_id"].to_pylist()]
            table = table.filter(pa.array(np.array(homes, dtype=np.int64) == shard))
        tables.append(table)
    return pa.concat_tables(tables) if tables else none


def with_those_that_stay(new: pa.Table, before: pa.Table, job: Job) -> pa.Table:
    """The new documents, and those of the published version whose file is neither read nor gone.

    A file that was read again is replaced as a whole: its failed rows, and the records that are no
    longer in it, go.
    """
    stay = before.filter(pa.array(staying(new, before, job)))
    return pa.concat_tables([new, conform(stay, DOCUMENT)])


def staying(new: pa.Table, before: pa.Table, job: Job) -> NDArray[np.bool_]:
    """Whether each document of the published version stays beside the new ones."""
    stays = ~job.gone.holds(file_digests(before))
    stays &= ~job.dropped.holds(as_words([digest(doc) for doc in before["doc_id"].to_pylist()]))
    taken: NDArray[np.bool_] = pc.is_in(
        before["doc_id"], value_set=new["doc_id"].combine_chunks()
    ).to_numpy()
    return stays & ~taken


def marked(documents: pa.Table, duplicates: pa.Table) -> pa.Table:
    """The documents with what each is a near-duplicate of; null for the others."""
    at = pc.index_in(documents["doc_id"], value_set=duplicates["doc_id"].combine_chunks())
    named = duplicates["duplicate_of"].combine_chunks().take(at.combine_chunks())
    place = documents.schema.get_field_index("duplicate_of")
    return documents.set_column(place, DOCUMENT.field("duplicate_of"), named)


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
