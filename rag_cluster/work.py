"""What a run has finished so far, in the version's work folder: parts of documents and of chunks.

    work/<run>/documents/<shard>/<rows' hash>.parquet    DOCUMENT rows
    work/<run>/chunks/<shard>/<rows' hash>.parquet       CHUNK rows with their vectors

A part's name is a hash of its rows, so a task that runs again replaces its own file. A run that was
interrupted leaves its parts, and the next one of the same settings goes on from them: a document is
finished when all of its chunks are there, and a file when all of its documents are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_cluster.hashes import Hashes, Words, as_words, digest
from rag_cluster.schema import (
    DOCUMENT,
    chunk_schema,
    conform,
    make_id,
    shard_of,
    vector_type,
)
from rag_cluster.storage import files
from rag_cluster.storage.places import place

DOCUMENTS, CHUNKS = "documents", "chunks"
TEXT_HASH = pa.binary(16)
# What tells whether a document is the same as before, without its text.
IDENTITY = ["doc_id", "uri", "content_hash", "status", "error", "source"]

NAMED_BY = ["chunk_id", "doc_id", "uri", "content_hash", "text"]  # what a part's name is a hash of
PLACE = ["content_hash", "start", "end", "header", "text"]
# A learned sparse vector: terms in rising order, and their weights.
SPARSE = pa.schema([("terms", pa.list_(pa.int32())), ("weights", pa.list_(pa.float32()))])
# A row group of a published file of documents.
STORED = pa.schema([("uri", pa.string()), ("group", pa.int64())])


def part_schema(fields: Mapping[str, str], dim: int, *, sparse: bool = False) -> pa.Schema:
    """The schema of a part of chunks.

    `reused` says that the vector is null because that of an equal text is taken in its place;
    `text_hash` names the text that was, or would have been, encoded. With `sparse` there are the
    columns SPARSE, null where the vector is (in late chunking only for what is not searchable).
    """
    schema = chunk_schema(fields)
    for name, kind in (
        ("vector", vector_type(dim)),
        ("truncated", pa.int32()),
        ("text_hash", TEXT_HASH),
        ("reused", pa.bool_()),
    ):
        schema = schema.append(pa.field(name, kind))
    for field in SPARSE if sparse else ():
        schema = schema.append(field)
    return schema


def document_keys(table: pa.Table) -> list[bytes]:
    """A digest for each DOCUMENT row: equal ones have equal chunks, if the settings are equal."""
    names = ("doc_id", "uri", "content_hash", "status")
    columns = [table.column(name).to_pylist() for name in names]
    parsers = [(source or {}).get("parse") or "" for source in table.column("source").to_pylist()]
    return [digest(*row) for row in zip(*columns, parsers, strict=True)]


def place_hashes(chunks: pa.Table) -> list[bytes]:
    """What names each chunk but for where it comes from: content, span, header and text."""
    columns = (chunks.column(name).to_pylist() for name in PLACE)
    return [
        digest(content, f"{start}:{end}", header, text)
        for content, start, end, header, text in zip(*columns, strict=True)
    ]


class KeepDocuments:
    """Writes the documents that pass; gives on those that are to be chunked.

    These are the documents that are ok and whose key is not in `done()`.
    """

    def __init__(self, work: Path, shards: int, done: Callable[[], Hashes]) -> None:
        self._folder = work / DOCUMENTS
        self._shards = shards
        self._done = done()

    def __call__(self, table: pa.Table) -> pa.Table:
        """The rows of the table that go on, in their order."""
        write_parts(table, self._folder, self._shards)
        return to_chunk(table, self._done)


def to_chunk(table: pa.Table, done: Hashes) -> pa.Table:
    """The DOCUMENT rows that are ok and of which the key is not done."""
    ok = pc.equal(table.column("status"), "ok").to_numpy()
    fresh = ~done.holds(as_words(document_keys(table)))
    return table.filter(pa.array(ok & fresh))


def stored_documents(shards: Iterable[Path]) -> pa.Table:
    """A row (schema STORED) for each row group of files of documents."""
    rows = [(str(path), group) for path in shards for group in range(files.row_groups(path))]
    return pa.Table.from_pylist([{"uri": uri, "group": group} for uri, group in rows], STORED)


class RestoreDocuments:
    """Reads stored documents that are to be chunked: those that stay and are not done.

    Those stay whose file `stays` says so of; see `file_digests`.
    """

    def __init__(
        self, stays: Callable[[pa.Table], NDArray[np.bool_]], done: Callable[[], Hashes]
    ) -> None:
        self._stays = stays
        self._done = done()

    def __call__(self, table: pa.Table) -> pa.Table:
        """DOCUMENT rows of the row groups (schema STORED)."""
        read = [files.read_row_group(place(row["uri"]), row["group"]) for row in table.to_pylist()]
        documents = conform(pa.concat_tables(read), DOCUMENT)
        return to_chunk(documents.filter(pa.array(self._stays(documents))), self._done)


def not_gone(documents: pa.Table, gone: Callable[[], Hashes]) -> NDArray[np.bool_]:
    """Whether each published document's file is neither read again nor gone."""
    return ~gone().holds(file_digests(documents))


def still_current(documents: pa.Table, current: Callable[[], Hashes]) -> NDArray[np.bool_]:
    """Whether each document that was read for this run is of its file as it is now."""
    return are_current(documents, current())


class KeepChunks:
    """Writes the chunks that pass; gives on only how many they were."""

    GIVES = pa.schema([("rows", pa.int64())])

    def __init__(self, work: Path, shards: int) -> None:
        self._folder = work / CHUNKS
        self._shards = shards

    def __call__(self, table: pa.Table) -> pa.Table:
        """A table of one row, `rows`."""
        write_parts(table, self._folder, self._shards)
        return pa.table({"rows": [table.num_rows]}, self.GIVES)


def write_parts(table: pa.Table, folder: Path, shards: int) -> None:
    """Writes the rows to a part of each shard that they belong to."""
    homes = [shard_of(doc_id, shards) for doc_id in table.column("doc_id").to_pylist()]
    for shard in sorted(set(homes)):
        part = table.take([row for row, home in enumerate(homes) if home == shard])
        keys = [key for key in NAMED_BY if key in part.column_names]
        name = make_id(*(value for key in keys for value in part.column(key).to_pylist()))
        files.write_table(part, folder / files.shard_name(shard) / f"{name}.parquet")


def part_files(work: Path, kind: str, shard: int) -> list[Path]:
    """The parts of a shard, in order of their names."""
    return files.files_in(work / kind / files.shard_name(shard), ".parquet")


def drop_unreadable(work: Path, shards: int, schema: pa.Schema) -> None:
    """Removes the parts that a crash of the machine, or another program, left damaged.

    `schema` is that of parts of chunks. What they held is made again.
    """
    for kind, names in ((DOCUMENTS, DOCUMENT.names), (CHUNKS, schema.names)):
        for shard in range(shards):
            for path in part_files(work, kind, shard):
                try:
                    whole = files.column_names(path) == names
                except (OSError, pa.ArrowInvalid):
                    whole = False
                if not whole:
                    files.remove(path)


def finished(work: Path, shards: int, current: Hashes) -> pa.Table:
    """The documents (columns IDENTITY) of which all chunks are there, or that have none to come.

    Only documents of files that are as they were; see `are_current`.
    """
    tables = [no_documents()]
    for shard in range(shards):
        whole = _whole_documents(work, shard)
        for documents in _columns(part_files(work, DOCUMENTS, shard), IDENTITY):
            rows = zip(*(documents[name].to_pylist() for name in IDENTITY[:4]), strict=True)
            ended = [status != "ok" or tuple(one) in whole for *one, status in rows]
            kept = np.array(ended, dtype=bool) & are_current(documents, current)
            tables.append(documents.filter(pa.array(kept)))
    return pa.concat_tables(tables)


def are_current(documents: pa.Table, current: Hashes) -> NDArray[np.bool_]:
    """Whether each document's file is as it was when it was read.

    `current` holds the digests of all files and parts with their etags as they are now.
    """
    return current.holds(file_digests(documents, with_etag=True))


def file_digests(documents: pa.Table, *, with_etag: bool = False) -> Words:
    """A digest of the file (or part) that each document came from, as `file_digest` gives it."""
    sources = documents.column("source").to_pylist()
    rows = [(one or {}) for one in sources]
    return as_words(
        [
            file_digest(row.get("file"), row.get("part"), row.get("etag") if with_etag else None)
            for row in rows
        ]
    )


def file_digest(file: str | None, part: str | None, etag: str | None = None) -> bytes:
    """What names a file or a part of one, and with an etag a state of it."""
    return digest(file or "", part or "", etag or "")


def _whole_documents(work: Path, shard: int) -> set[tuple[str, str, str]]:
    """(doc_id, uri, content_hash) of the documents that have all their chunks in the parts.

    Only those of the last time that a document was cut count: see `last_cut`.
    """
    seen: set[tuple[str, str, int]] = set()
    left: dict[tuple[str, str, str], tuple[int, int]] = {}
    names = ["chunk_id", "siblings", "doc_id", "uri", "content_hash"]
    for table in _columns(part_files(work, CHUNKS, shard), names):
        columns = (table.column(name).to_pylist() for name in names)
        for chunk, siblings, *document in zip(*columns, strict=True):
            key = (document[0], document[1], document[2])
            most, missing = left.get(key, (0, 0))
            if siblings > most:
                most, missing = siblings, siblings
            if siblings == most and (chunk, key[2], siblings) not in seen:
                seen.add((chunk, key[2], siblings))
                missing -= 1
            left[key] = (most, missing)
    return {document for document, (_, missing) in left.items() if missing == 0}


def last_cut(chunks: pa.Table) -> pa.Table:
    """The chunks without such as an interrupted run has left of documents that were cut again.

    With the same settings a document has other chunks only where a language model has answered
    what it failed at before. Then there are more of them.
    """
    keys = list(zip(*(chunks[name].to_pylist() for name in IDENTITY[:3]), strict=True))
    siblings = chunks["siblings"].to_pylist()
    most: dict[tuple[str, ...], int] = {}
    for key, count in zip(keys, siblings, strict=True):
        most[key] = max(count, most.get(key, 0))
    kept = [count == most[key] for key, count in zip(keys, siblings, strict=True)]
    return chunks if all(kept) else chunks.filter(pa.array(kept))


def _columns(paths: Iterable[Path], names: list[str]) -> Iterator[pa.Table]:
    for path in paths:
        yield files.read_shard(path, columns=names)


def no_documents() -> pa.Table:
    """An empty table of the columns IDENTITY."""
    return pa.schema([DOCUMENT.field(name) for name in IDENTITY]).empty_table()
