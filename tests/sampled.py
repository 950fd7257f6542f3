"""Small collections without an index, and a server that asks questions of what it is shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import chat_server
from chat_server import Reply

from rag_cluster import config
from rag_cluster.schema import (
    DOCUMENT,
    chunk_id,
    chunk_schema,
    document_id,
    rows_to_table,
    shard_of,
)
from rag_cluster.storage import FORMAT, Writer, file_entries, write_table

Row = dict[str, Any]
SETTINGS = {"embed": {"model": "fake:64"}}


def text_of(name: str, number: int) -> str:
    """A chunk with enough words, unlike that of any other name or number."""
    name = name.title()
    return (
        f"The {name} station number {number} measures wind, rain and pressure every minute. "
        f"Its battery lasts {number + 3} weeks, and its mast carries three instruments. "
        f"Engineers inspect the bolts of the {name} each spring."
    )


def document(name: str, chunks: int | Sequence[str], **more: Any) -> Row:
    """A document of so many chunks, or of these texts; `more` are fields and columns of it."""
    texts = [text_of(name, i) for i in range(chunks)] if isinstance(chunks, int) else list(chunks)
    return {"uri": f"/corpus/{name}.txt", "title": name, "texts": texts, **more}


def publish(
    home: str, documents: Sequence[Row], *, shards: int = 1, fields: Mapping[str, str] | None = None
) -> None:
    """A published version of documents and chunks; two chunks stand in a row group."""
    made = config.build(SETTINGS | {"metadata": {"fields": dict(fields or {})}})
    schema = chunk_schema(fields)
    with Writer(home) as writer:
        listed = []
        for shard in range(shards):
            rows = [row for row in documents if shard_of(document_id(row["uri"]), shards) == shard]
            kinds = {
                "documents": rows_to_table([_document(row) for row in rows], DOCUMENT),
                "chunks": rows_to_table([c for row in rows for c in _chunks(row, fields)], schema),
            }
            files = [writer.folder / kind / f"shard-{shard:05}.parquet" for kind in kinds]
            for file, table in zip(files, kinds.values(), strict=True):
                write_table(table, file, row_group_size=2)
            listed.append({"files": file_entries(writer.folder, files)})
        writer.publish(
            {
                "format": FORMAT,
                "created": "2026-01-01T00:00:00+00:00",
                "documents_total": len(documents),
                "chunks": sum(len(row["texts"]) for row in documents),
                "config": made.model_dump(mode="json"),
                "shards": listed,
            }
        )


def _document(row: Row) -> Row:
    return {
        "doc_id": document_id(row["uri"]), "uri": row["uri"], "title": row["title"],
        "text": "\n\n".join(row["texts"]), "pages": row.get("pages"), "status": "ok",
        "duplicate_of": row.get("duplicate_of"),
    }  # fmt: skip


def _chunks(row: Row, fields: Mapping[str, str] | None) -> list[Row]:
    found, start = [], 0
    doc_id = document_id(row["uri"])
    for ordinal, text in enumerate(row["texts"]):
        end = start + len(text)
        pages = [
            p["number"] for p in row.get("pages") or [] if p["start"] < end and start < p["end"]
        ]
        found.append(
            {
                "chunk_id": chunk_id(doc_id, start, end, "fragment", "test"), "doc_id": doc_id,
                "uri": row["uri"], "title": row["title"], "ordinal": ordinal, "kind": "fragment",
                "role": "body", "searchable": True, "start": start, "end": end,
                "page_first": min(pages, default=None), "page_last": max(pages, default=None),
                "section_path": "", "header": "", "text": text, "context": "",
                "tokens": len(text.split()),
            }
            | {name: row.get(name) for name in fields or {}}
            | dict(row.get("columns", {}))
        )  # fmt: skip
        start = end + 2
    return found


def passage_of(call: Row) -> str:
    """The passage that a call shows."""
    found = re.search(r"<passage>\n(.*)\n</passage>", call["messages"][0]["content"], re.DOTALL)
    assert found is not None
    return found.group(1)


def pair(question: str, answer: str) -> str:
    return json.dumps({"question": question, "answer": answer})


def about(call: Row) -> str:
    """A good question: which words end the passage's first sentence?"""
    first = re.split(r"(?<=\.)\s", passage_of(call))[0]
    *head, before, last = first.split()
    return pair(f"What follows '{' '.join(head)}'?", f"{before} {last}")


def saying(decide: Callable[[Row], str], asked: list[Row]) -> Callable[[Row], Reply]:
    """What a server replies by a rule; it notes in `asked` what it was asked."""

    def reply(call: Row) -> Reply:
        asked.append(call)
        return chat_server.answer(decide(call), call)

    return reply
