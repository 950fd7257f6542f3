"""POST /v1/search and POST /v1/ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from rag_cluster.answer.found import rounded
from rag_cluster.answer.writing import Answer, write, write_in_pieces
from serve.api.events import EventStream, event
from serve.api.service import Called, Service, Serviced, while_connected
from serve.api.shapes import AskReply, AskRequest, SearchReply, SearchRequest
from serve.observe import Record
from serve.options import Options
from serve.retriever import DeadlineError, in_time

router = APIRouter(prefix="/v1", tags=["search"])


@router.post("/search", response_model=SearchReply)
async def search(
    body: SearchRequest, request: Request, service: Serviced, caller: Called
) -> Response:
    """Find the passages that fit a query."""
    query = service.check_text("query", body.query)
    record = Record("search", caller, query, service.options(body, caller))

    async def work() -> Response:
        async with service.recorded(record):
            async with in_time("search", record.options):
                answered = await service.backend.retriever.search(query, record.options)
            record.version, record.found = answered.version, answered.found
        head = {"id": record.id, "version": answered.version}
        return JSONResponse(head | answered.found.to_json())

    return await while_connected(request, work())


@router.post(
    "/ask",
    response_model=AskReply,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Answer, or its events"}},
)
async def ask(body: AskRequest, request: Request, service: Serviced, caller: Called) -> Response:
    """Answer a question from the collection, with citations; with `stream`, as events.

    The events are `hits` (what was found), `token` (pieces of the draft), `answer` (the answer as
    it counts: citations checked, with guardrails and timings); `error` ends a stream that failed.
    """
    question = service.check_text("question", body.question)
    options = service.options(
        body, caller, max_tokens=body.max_tokens, temperature=body.temperature
    )
    record = Record("ask", caller, question, options)
    if body.stream:
        return EventStream(_events(service, record))

    async def work() -> Response:
        answer = await answered(service, record, question)
        return JSONResponse(answer_json(record, answer))

    return await while_connected(request, work())


def answer_json(record: Record, answer: Answer) -> dict[str, Any]:
    """AskReply."""
    return {"id": record.id, "version": record.version} | answer.to_json()


async def answered(service: Service, record: Record, question: str) -> Answer:
    """The whole answer. Raises what `explain` explains."""
    async with service.recorded(record):
        options = record.options
        async with in_time("search", options):
            grounded = await service.backend.retriever.ground(question, options)
        record.version, record.found = grounded.version, grounded.grounds.found
        writer = service.backend.writer(options)
        async with in_time("generate", options):
            answer = await write(grounded.grounds, writer, service.config.guardrails)
        record.answer = answer
        return answer


async def answered_in_pieces(
    service: Service, record: Record, question: str
) -> AsyncIterator[str | Answer]:
    """Pieces of the draft and the answer; before them `record.found` is set.

    The first item is an empty piece, which says that the search is done.
    """
    start = time.perf_counter()
    async with service.recorded(record):
        options = record.options
        async with in_time("search", options):
            grounded = await service.backend.retriever.ground(question, options)
        record.version, record.found = grounded.version, grounded.grounds.found
        yield ""
        writer = service.backend.writer(options)
        pieces = write_in_pieces(grounded.grounds, writer, service.config.guardrails)
        while True:
            piece = await _next(pieces, options)
            if piece is None:
                break
            if isinstance(piece, Answer):
                record.answer = piece
            elif "first_token_s" not in record.extra:
                record.extra["first_token_s"] = time.perf_counter() - start
            yield piece


async def _next(pieces: AsyncIterator[str | Answer], options: Options) -> str | Answer | None:
    """The next piece, in time; None after the last one."""
    try:
        async with asyncio.timeout(options.left_s):
            return await anext(pieces, None)
    except TimeoutError:
        raise DeadlineError("generate") from None


async def _events(service: Service, record: Record) -> AsyncIterator[bytes]:
    async for piece in answered_in_pieces(service, record, record.question):
        if isinstance(piece, Answer):
            told = answer_json(record, piece)
            del told["hits"]
            yield event("answer", told)
        elif piece:
            yield event("token", {"text": piece})
        elif record.found is not None:
            found = record.found
            told = {"id": record.id, "version": record.version} | found.to_json()
            yield event("hits", told | {"timings_ms": rounded(found.timings_ms)})
