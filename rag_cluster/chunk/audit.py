"""Proving that chunks are what their schema says."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rag_cluster.schema import chunk_id

Row = Mapping[str, Any]
PROPOSITION = "proposition"


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a chunk."""

    chunk_id: str
    what: str


def audit(documents: pa.Table, chunks: pa.Table, chunker: str | None = None) -> list[Problem]:
    """What is wrong with the chunks (CHUNK) of these documents (DOCUMENT); [] if nothing is.

    Checked: a chunk's document is there and was parsed; its text is the document's text at its
    span, and not blank; ids are unique and, where `chunker` (its fingerprint) is given, the hash of
    what they stand for; ordinals are 0, 1, 2, ... in reading order; a parent is a section of the
    same document, stands before its parts and contains them; what is not searched is the parent of
    something; pages are the document's. Of a proposition, whose text is not the document's, the
    parent is the chunk that it was rewritten from, which has its span and is not searched.
    """
    by_document: dict[str, list[Row]] = {}
    for row in chunks.to_pylist():
        by_document.setdefault(row["doc_id"], []).append(row)
    problems = _repeated_ids(chunks)
    for batch in documents.to_batches(max_chunksize=64):
        for document in batch.to_pylist():
            rows = by_document.pop(document["doc_id"], [])
            problems.extend(_of_document(document, rows, chunker))
    for rows in by_document.values():
        problems.extend(Problem(row["chunk_id"], "its document does not exist") for row in rows)
    return problems


def _repeated_ids(chunks: pa.Table) -> list[Problem]:
    ids: list[str] = chunks.column("chunk_id").to_pylist()
    seen: set[str] = set()
    repeated: list[Problem] = []
    for name in ids:
        if name in seen:
            repeated.append(Problem(name, "another chunk has the same id"))
        seen.add(name)
    return repeated


def _of_document(document: Row, rows: list[Row], chunker: str | None) -> list[Problem]:
    if document["status"] != "ok":
        what = f"its document has the status {document['status']!r}"
        return [Problem(row["chunk_id"], what) for row in rows]
    rows = sorted(rows, key=lambda row: row["ordinal"])
    pages = {page["number"] for page in document["pages"] or []}
    parents = {row["parent_id"] for row in rows}
    earlier: dict[str, Row] = {}
    start = 0
    found: list[Problem] = []
    for ordinal, row in enumerate(rows):
        wrong = [
            *_span(document["text"], row),
            *_identity(row, chunker),
            *_place(row, ordinal, start),
            *(_source(row, earlier) if row["kind"] == PROPOSITION else _parent(row, earlier)),
            *_stands_for(row, parents),
            *_pages(row, pages),
        ]
        found.extend(Problem(row["chunk_id"], what) for what in wrong)
        earlier[row["chunk_id"]] = row
        start = row["start"]
    return found


def _span(text: str, row: Row) -> list[str]:
    start, end = row["start"], row["end"]
    if not 0 <= start < end <= len(text):
        return [f"its span [{start}, {end}) is not in the document's {len(text)} characters"]
    if row["kind"] != PROPOSITION and text[start:end] != row["text"]:
        return [f"its text is not the document's at [{start}, {end})"]
    return [] if row["text"].strip() else ["its text is blank"]


def _identity(row: Row, chunker: str | None) -> list[str]:
    if chunker is None:
        return []
    rewritten = row["text"] if row["kind"] == PROPOSITION else None
    known = chunk_id(row["doc_id"], row["start"], row["end"], row["kind"], chunker, rewritten)
    return [] if row["chunk_id"] == known else [f"its id should be {known}"]


def _place(row: Row, ordinal: int, start: int) -> list[str]:
    wrong = []
    if row["ordinal"] != ordinal:
        wrong.append(f"its ordinal is {row['ordinal']} where {ordinal} comes next")
    if row["start"] < start:
        wrong.append("it begins before the chunk in front of it")
    return wrong


def _parent(row: Row, earlier: Mapping[str, Row]) -> list[str]:
    if row["parent_id"] is None:
        return []
    parent = earlier.get(row["parent_id"])
    if parent is None:
        return [f"its parent {row['parent_id']} is not before it in its document"]
    wrong = [] if parent["kind"] == "section" else [f"its parent is a {parent['kind']}"]
    if not (parent["start"] <= row["start"] and row["end"] <= parent["end"]):
        wrong.append("it reaches out of its parent")
    return wrong


def _source(row: Row, earlier: Mapping[str, Row]) -> list[str]:
    source = earlier.get(row["parent_id"])
    if source is None:
        return [f"what it was rewritten from, {row['parent_id']}, is not before it"]
    wrong = []
    if source["kind"] not in ("section", "fragment"):
        wrong.append(f"it was rewritten from a {source['kind']}")
    if source["searchable"]:
        wrong.append("what it was rewritten from is searched beside it")
    if (source["start"], source["end"]) != (row["start"], row["end"]):
        wrong.append("its span is not that of what it was rewritten from")
    return wrong


def _stands_for(row: Row, parents: AbstractSet[str]) -> list[str]:
    if row["searchable"] or row["chunk_id"] in parents:
        return []
    return ["it is not searched, and nothing is in its place"]


def _pages(row: Row, pages: set[int]) -> list[str]:
    first, last = row["page_first"], row["page_last"]
    if not pages:
        return [] if first is None and last is None else ["it has pages, its document has none"]
    if first is None or last is None or first > last or not {first, last} <= pages:
        return [f"its pages {first} to {last} are not among the document's"]
    return []
