"""The documents of a shard: what a run has read, and what stays of the published version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
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
    parts = parts.filter(pa.array(are_current(parts, job.current)))
    return unique_documents(parts.filter(pa.array(_last_attempts(parts))))


# What fails a whole file, and may not do so in another attempt.
ATTEMPTS = frozenset({"cannot be read", "timed out", "out of memory", "parser crashed"})


def _last_attempts(documents: pa.Table) -> NDArray[np.bool_]:
    """Whether each row stands: a file that could be read after all has not failed as a whole."""
    names = ("source", "error", "doc_id")
    rows = list(zip(*(documents[name].to_pylist() for name in names), strict=True))
    files = [(source["file"], source["part"]) for source, _, _ in rows]
    read = {file for file, (_, error, _) in zip(files, rows, strict=True) if error not in ATTEMPTS}
    seen: set[tuple[str, str | None]] = set()
    stands = []
    for file, (_, error, _) in zip(files, rows, strict=True):
        whole = error in ATTEMPTS
        stands.append(not whole or (file not in read and file not in seen))
        if whole:
            seen.add(file)
    return np.array(stands, dtype=bool)


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
    stay = before.filter(pa.array(staying(before, job)))
    return unique_documents(pa.concat_tables([new, conform(stay, DOCUMENT)]))


def staying(before: pa.Table, job: Job) -> NDArray[np.bool_]:
    """Whether each document of the published version stays beside the new ones."""
    stays = ~job.gone.holds(file_digests(before))
    stays &= ~job.dropped.holds(as_words([digest(doc) for doc in before["doc_id"].to_pylist()]))
    return stays


def marked(documents: pa.Table, duplicates: pa.Table) -> pa.Table:
    """The documents with what each is a near-duplicate of; null for the others."""
    at = pc.index_in(documents["doc_id"], value_set=duplicates["doc_id"].combine_chunks())
    named = duplicates["duplicate_of"].combine_chunks().take(at.combine_chunks())
    place = documents.schema.get_field_index("duplicate_of")
    return documents.set_column(place, DOCUMENT.field("duplicate_of"), named)


def owners_of_ids(documents: pa.Table) -> NDArray[np.int64]:
    """The rows that keep their id: of those with one id the first by (uri, content hash)."""
    keys = [(name, "ascending") for name in ("doc_id", "uri", "content_hash")]
    order = pc.sort_indices(documents, sort_keys=keys).to_numpy().astype(np.int64)
    ids = documents["doc_id"].take(pa.array(order)).to_pylist()
    return np.array(
        [row for i, row in enumerate(order) if i == 0 or ids[i] != ids[i - 1]], dtype=np.int64
    )


def unique_documents(documents: pa.Table) -> pa.Table:
    """Each document once.

    Rows that are equal (a task that ran twice) are one document. Of different documents with one
    id one keeps it (see `owners_of_ids`); each other becomes a failed row of its own.
    """
    keys = ["doc_id", "uri", "content_hash"]
    owners = owners_of_ids(documents)
    kept = documents.take(pa.array(owners))
    owner_of = {doc: (uri, content) for doc, uri, content in _rows(kept.select(keys))}
    seen: set[tuple[str, ...]] = set()
    failed: list[dict[str, Any]] = []
    for row, (doc, uri, content) in enumerate(_rows(documents.select(keys))):
        if owner_of[doc] != (uri, content) and (doc, uri, content) not in seen:
            seen.add((doc, uri, content))
            failed.append(_duplicate(documents.slice(row, 1).to_pylist()[0], owner_of[doc][0]))
    return pa.concat_tables([kept, pa.Table.from_pylist(failed, DOCUMENT)])


def _rows(table: pa.Table) -> Iterator[tuple[str, ...]]:
    return zip(*(table[name].to_pylist() for name in table.column_names), strict=True)


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
