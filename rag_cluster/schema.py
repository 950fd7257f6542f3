"""What flows between the stages: Arrow schemas, ids, and `conform()`.

    FILE -> DOCUMENT -> CHUNK (+ context, + vector) -> index          at ingest
    QUERY -> HIT -> ANSWER                                            at query time

A stage takes a table of one schema and gives a table of the next; it adds columns and never
renames them. `document.text` is the one coordinate system: pages, sections, tables and chunks are
half-open spans `[start, end)` of it, counted in Unicode code points (Python string indices).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

FILE = pa.schema(
    [
        ("uri", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.timestamp("us", tz="UTC")),
        ("etag", pa.string()),
        # A slice of a file of records: bytes of a JSONL, row groups of a Parquet. Null: the whole.
        ("part_start", pa.int64()),
        ("part_end", pa.int64()),
    ]
)

PAGE = pa.struct([("number", pa.int32()), ("start", pa.int64()), ("end", pa.int64())])

# Sections partition the text: they are disjoint, ordered, and cover it. Text before the first
# heading is a section of level 0 without a title. `start` is where the heading begins, `body` where
# the text under it begins, `end` where the next section (of any level) starts. `parent` is an index
# into the same list, or -1. `path` is the breadcrumb "Part > Chapter > Section".
SECTION = pa.struct(
    [
        ("title", pa.string()),
        ("level", pa.int32()),
        ("parent", pa.int32()),
        ("path", pa.string()),
        ("role", pa.string()),
        ("start", pa.int64()),
        ("body", pa.int64()),
        ("end", pa.int64()),
    ]
)

# `header_end` closes the header rows (for a Markdown table: after the |---| line and its newline);
# it equals `start` where no header is known.
TABLE = pa.struct([("start", pa.int64()), ("header_end", pa.int64()), ("end", pa.int64())])

# Where a document came from: the uri of the file, its `part` (see `part_name`; null: the whole),
# what its store said of its content (`etag`), the fingerprint of the parser's settings (`parse`),
# and how many `documents` the file or the part gave.
SOURCE = pa.struct(
    [
        ("file", pa.string()),
        ("part", pa.string()),
        ("etag", pa.string()),
        ("parse", pa.string()),
        ("documents", pa.int32()),
    ]
)

Status = Literal["ok", "empty", "failed"]
STATUSES: tuple[Status, ...] = ("ok", "empty", "failed")

# Roles of sections. All but "body" are left out of retrieval by default.
Role = Literal["body", "references", "contents", "index"]

DOCUMENT = pa.schema(
    [
        ("doc_id", pa.string()),
        ("uri", pa.string()),
        ("media_type", pa.string()),
        ("title", pa.string()),
        ("text", pa.large_string()),
        ("pages", pa.list_(PAGE)),
        ("sections", pa.list_(SECTION)),
        ("tables", pa.list_(TABLE)),
        ("metadata", pa.string()),  # a JSON object
        ("content_hash", pa.string()),
        ("parser", pa.string()),  # which parser and which settings made this row
        ("status", pa.string()),
        ("error", pa.string()),  # the reason in few words, the same for all of its kind; null if ok
        ("detail", pa.string()),  # what exactly happened here; may be null
        ("source", SOURCE),
        # doc_id of the document that this one nearly equals; null if none, or if not looked for
        ("duplicate_of", pa.string()),
    ]
)

CHUNK = pa.schema(
    [
        ("chunk_id", pa.string()),
        ("doc_id", pa.string()),
        ("uri", pa.string()),
        ("content_hash", pa.string()),  # of the document that it was cut from
        ("title", pa.string()),
        ("ordinal", pa.int32()),  # 0, 1, 2, ... within the document, in reading order
        ("siblings", pa.int32()),  # how many chunks the document has
        ("kind", pa.string()),  # section, fragment, table, proposition
        ("role", pa.string()),  # see Role
        ("searchable", pa.bool_()),  # false for what stands only as parent of fragments or facts
        # chunk_id of the section that this is a part of, or of the chunk that it was rewritten from
        ("parent_id", pa.string()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("page_first", pa.int32()),  # 1-based; null without pages
        ("page_last", pa.int32()),
        ("section_path", pa.string()),
        ("header", pa.string()),  # repeated header rows of a split table; "" otherwise
        ("text", pa.string()),  # document.text[start:end]; of a proposition the fact
        ("context", pa.string()),  # what enrichment puts in front; "" without
        ("tokens", pa.int32()),  # of `text`, by the encoder's tokenizer, without special tokens
    ]
)

# What a language model is asked for a chunk: a conversation, or for a local engine its tokens.
PROMPT = pa.schema(
    [
        ("prompt_hash", pa.binary(16)),  # names the request and the model
        ("chunk_id", pa.string()),
        ("doc_id", pa.string()),
        ("messages", pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))),
        ("tokens", pa.list_(pa.int32())),  # null where the engine makes them itself
        ("dropped_tokens", pa.int32()),  # of the document that had no room in the window
        ("max_tokens", pa.int32()),
        ("json_schema", pa.string()),  # null where any text will do
    ]
)

# What it wrote. Token counts are the engine's own; `cached_tokens` of the prompt were known to it.
GENERATED = pa.schema(
    [
        ("prompt_hash", pa.binary(16)),
        ("chunk_id", pa.string()),
        ("doc_id", pa.string()),
        ("text", pa.string()),  # null where it failed
        ("error", pa.string()),  # null where it did not
        ("model", pa.string()),
        ("revision", pa.string()),
        ("dropped_tokens", pa.int32()),
        ("prompt_tokens", pa.int32()),
        ("cached_tokens", pa.int32()),
        ("completion_tokens", pa.int32()),
    ]
)

QUERY = pa.schema([("query_id", pa.string()), ("text", pa.string())])

HIT = pa.schema(
    [
        ("query_id", pa.string()),
        ("chunk_id", pa.string()),
        ("doc_id", pa.string()),
        ("score", pa.float64()),
        ("rank", pa.int32()),
        ("channel", pa.string()),
    ]
)

QREL = pa.schema(
    [
        ("query_id", pa.string()),
        ("doc_id", pa.string()),
        ("page", pa.int32()),
        ("relevance", pa.int32()),
    ]
)

FieldType = Literal["keyword", "text", "int", "float", "bool", "date"]
FIELD_TYPES: dict[str, pa.DataType] = {
    "keyword": pa.string(),
    "text": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
}


@dataclass(frozen=True, slots=True)
class Hit:
    """One retrieved chunk. `rank` counts from 1; `channel` is what produced the score."""

    chunk_id: str
    doc_id: str
    score: float
    rank: int
    channel: str


@dataclass(frozen=True, slots=True)
class Passage:
    """A hit with what a reader needs of it. `pages` is (first, last), 1-based; None without pages.

    `start` and `end` are its span of the document's text; `section` is the breadcrumb.
    """

    rank: int
    score: float
    chunk_id: str
    doc_id: str
    uri: str
    title: str
    pages: tuple[int, int] | None
    section: str
    kind: str
    parent_id: str | None
    ordinal: int
    start: int
    end: int
    header: str
    text: str


def chunk_schema(fields: Mapping[str, str] | None = None) -> pa.Schema:
    """CHUNK with the declared metadata fields (name -> field type) as typed columns at its end."""
    schema = CHUNK
    for name, kind in (fields or {}).items():
        schema = schema.append(pa.field(name, FIELD_TYPES[kind]))
    return schema


def vector_type(dim: int) -> pa.DataType:
    """The type of a vector column: a fixed-size list of `dim` float32."""
    return pa.list_(pa.float32(), dim)


def make_id(*parts: str | int) -> str:
    """A stable 24-digit hexadecimal id of the parts (BLAKE2b, 96 bits)."""
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        data = str(part).encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def part_name(part_start: int | None, part_end: int | None) -> str | None:
    """What names a part of a file ("0:8388608"); None for a whole file."""
    return None if part_start is None else f"{part_start}:{part_end}"


def document_id(uri_or_record_id: str) -> str:
    """The id of a document: a hash of its uri, or of the record's own id."""
    return make_id("document", uri_or_record_id)


def chunk_id(
    doc_id: str, start: int, end: int, kind: str, chunker: str, rewritten: str | None = None
) -> str:
    """The id of a chunk; `chunker` is the fingerprint of the chunker's settings.

    Of a proposition the `rewritten` text is a part of its name: many share one span.
    """
    more = [] if rewritten is None else [rewritten]
    return make_id("chunk", doc_id, start, end, kind, chunker, *more)


def shard_of(doc_id: str, shards: int) -> int:
    """The shard of a document, in [0, shards)."""
    return int(make_id("shard", doc_id), 16) % shards


def content_hash(data: bytes) -> str:
    """A hash of a file's or record's bytes (BLAKE2b, 128 bits, hexadecimal)."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly the schema's columns, in order, cast safely.

    Raises ValueError that names the missing column, or the column whose values do not fit.
    """
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            raise ValueError(f"column {field.name!r} is missing; there are {table.column_names}")
        try:
            columns.append(table.column(field.name).cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ValueError(f"column {field.name!r} is not {field.type}: {error}") from error
    return pa.table(columns, schema=schema)


def rows_to_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """A table from row dictionaries; a missing key is null, an unknown one a ValueError."""
    known = set(schema.names)
    for row in rows:
        if not known.issuperset(row):
            raise ValueError(f"columns {sorted(set(row) - known)} are not in the schema")
    arrays = [pa.array([row.get(field.name) for row in rows], type=field.type) for field in schema]
    return pa.table(arrays, schema=schema)


def indexed_text(context: str, header: str, text: str) -> str:
    """What encoders and BM25 see of a chunk: context, header and text, joined by newlines."""
    return "\n".join(part for part in (context, header, text) if part)
