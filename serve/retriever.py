"""What a retriever replica does: searching the published version, and reading from it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_cluster.answer.conversation import Standalone, standalone
from rag_cluster.answer.found import SearchResult, Timings, timed
from rag_cluster.answer.query import Engine
from rag_cluster.answer.writing import Grounds
from rag_cluster.errors import CollectionError
from rag_cluster.index.filters import parse_filter
from serve.options import Options
from serve.page_image import page_image
from serve.published import Published, Version

# Of a document's text that one request gives.
TEXT_CHARS = 200_000


class DeadlineError(Exception):
    """The request's time ran out in a stage."""

    def __init__(self, stage: str) -> None:
        super().__init__(stage)
        self.stage = stage


@dataclass(frozen=True)
class Answered:
    """What was found, and the version that it was found in."""

    version: str
    found: SearchResult


@dataclass(frozen=True)
class Grounded:
    """What an answer is to be written from, and the version that it comes from."""

    version: str
    grounds: Grounds


class Retriever:
    """Asks the published version. All that it returns says which version that was."""

    def __init__(self, published: Published) -> None:
        self._published = published

    async def search(self, query: str, options: Options) -> Answered:
        """The passages that fit. Raises UsageError and DeadlineError."""
        async with self._asked(options) as (version, engine), in_time("search", options):
            found = await engine.search(
                query, top_k=options.top_k, where=options.where, within_s=options.left_s
            )
        return Answered(version.name, found)

    async def ground(self, question: str, options: Options) -> Grounded:
        """What an answer is to be written from. Raises as `search` does.

        The last question of a conversation is made one that needs no conversation.
        """
        async with self._asked(options) as (version, engine), in_time("search", options):
            timings: Timings = {}
            with timed(timings, "standalone"):
                alone = await _standalone(version, question, options)
            grounds = await engine.ground(
                alone.question, top_k=options.top_k, where=options.where, within_s=_half(options)
            )  # the rest is for what writes the answer
        found = grounds.found
        if alone.note is not None:
            found.notes.insert(0, alone.note)
        if options.earlier:
            found.timings_ms.update(timings)
            found.timings_ms["total"] += timings["standalone"]
        return Grounded(version.name, grounds)

    async def document(
        self, doc_id: str, where: Mapping[str, Any] | None, start: int = 0, end: int | None = None
    ) -> dict[str, Any] | None:
        """A document with a stretch of its text; None where `where` does not let it through."""
        async with self._published.version() as version:
            if not _sees(version, "doc_id", doc_id, where):
                return None
            row = await asyncio.to_thread(_stored, version, doc_id)
            return None if row is None else _document(version.name, row, start, end)

    async def chunk(self, chunk_id: str, where: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """A chunk with its span and pages; None where `where` does not let it through."""
        async with self._published.version() as version:
            if not _sees(version, "chunk_id", chunk_id, where):
                return None
            store = version.opened.store
            try:
                passage = store.passage(store.row_of(chunk_id))
            except KeyError:
                return None
            return {"version": version.name, **_chunk(passage)}

    async def page(
        self, doc_id: str, page: int, where: Mapping[str, Any] | None, width: int
    ) -> bytes | None:
        """A page of a PDF as a PNG; None where there is none to be shown. Raises SourceError."""
        async with self._published.version() as version:
            if not _sees(version, "doc_id", doc_id, where):
                return None
            columns = ["uri", "media_type", "content_hash"]
            row = await asyncio.to_thread(_stored, version, doc_id, columns)
            if row is None or row["media_type"] != "application/pdf":
                return None
            return await asyncio.to_thread(page_image, row["uri"], row["content_hash"], page, width)

    async def describe(self, where: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The version, what it has and what can be asked of it; no counts behind a filter."""
        async with self._published.version() as version:
            config = version.models.config
            manifest = version.opened.collection.manifest
            known = {
                "version": version.name,
                "name": version.opened.collection.path.name,
                "fields": version.opened.collection.fields,
                "channels": list(config.retrieve.channels),
                "top_k": config.retrieve.top_k,
                "generator": config.generate.model or config.generate.kind,
                "rerank": config.rerank.kind,
                "transform": config.transform.kind,
            }
            if not where:
                known |= {
                    "documents": manifest["documents"],
                    "chunks": version.opened.store.searchable,
                }
            return known

    async def status(self) -> dict[str, Any]:
        """Which version answers, and which one was refused."""
        return self._published.status()

    @contextlib.asynccontextmanager
    async def _asked(self, options: Options) -> AsyncIterator[tuple[Version, Engine]]:
        async with self._published.version() as version:
            yield version, version.engine(options)


@contextlib.asynccontextmanager
async def in_time(stage: str, options: Options) -> AsyncIterator[None]:
    """Raises DeadlineError where the block does not end before the request's deadline."""
    try:
        async with asyncio.timeout(options.left_s):
            yield
    except TimeoutError:
        raise DeadlineError(stage) from None


def _half(options: Options) -> float | None:
    """Half of the seconds that are left."""
    return None if options.left_s is None else options.left_s / 2


async def _standalone(version: Version, question: str, options: Options) -> Standalone:
    """The question without need of the turns before it; the model gets half of the time left."""
    if not options.earlier:
        return Standalone(question)
    config = version.models.config
    half = _half(options)
    return await standalone(
        question,
        options.earlier,
        await asyncio.to_thread(version.models.conversing),
        timeout_s=min(config.transform.timeout_s, math.inf if half is None else half),
        most_chars=config.service.limits.query_chars,
    )


def _sees(version: Version, column: str, value: str, where: Mapping[str, Any] | None) -> bool:
    """Whether a filter lets a document or chunk through; without one everything is seen."""
    wanted = parse_filter(where, version.opened.collection.fields)
    if wanted is None:
        return True
    table: pa.Table = version.opened.store.table
    mine = table.filter(pc.equal(table[column], value))
    return bool(mine.num_rows and np.any(wanted.mask(mine)))


def _stored(
    version: Version, doc_id: str, columns: list[str] | None = None
) -> dict[str, Any] | None:
    """The row of a document, which is read where the version lies, unlike what is searched.

    Raises CollectionError where another collection has taken that place.
    """
    collection = version.opened.collection
    row = collection.document(doc_id, columns)
    if collection.is_replaced():
        raise CollectionError(
            f"{collection.folder} holds another collection than the one that is served: put that "
            "back, or mend what is there"
        )
    return row


def _document(version: str, row: Mapping[str, Any], start: int, end: int | None) -> dict[str, Any]:
    text = row["text"] or ""
    start = min(max(0, start), len(text))
    last = len(text) if end is None else min(max(start, end), len(text))
    last = min(last, start + TEXT_CHARS)
    return {
        "version": version,
        "doc_id": row["doc_id"],
        "uri": row["uri"],
        "title": row["title"],
        "media_type": row["media_type"],
        "metadata": row["metadata"],
        "status": row["status"],
        "pages": [dict(page) for page in row["pages"] or ()],
        "sections": [
            {name: section[name] for name in ("title", "level", "path", "start", "end")}
            for section in row["sections"] or ()
        ],
        "chars": len(text),
        "start": start,
        "end": last,
        "text": text[start:last],
    }


def _chunk(passage: Any) -> dict[str, Any]:
    names: Sequence[str] = (
        "chunk_id", "doc_id", "uri", "title", "section", "kind", "parent_id", "start", "end",
        "header", "text",
    )  # fmt: skip
    pages = None if passage.pages is None else list(passage.pages)
    return {name: getattr(passage, name) for name in names} | {"pages": pages}
