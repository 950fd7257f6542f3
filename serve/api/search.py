"""POST /v1/search and POST /v1/ask."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from rag_cluster.answer.found import rounded
from rag_cluster.answer.writing import Answer, write, write_in_pieces
from serve.api.events import EventStream, event
from serve.api.incoming import ApiRoute
from serve.api.replies import AskReply, SearchReply
from serve.api.service import SENT, Called, Service, Serviced, while_connected
from serve.api.shapes import AskRequest, SearchRequest
from serve.observe import Record
from serve.options import Options
from serve.retriever import DeadlineError, in_time

router = APIRouter(prefix="/v1", tags=["search"], route_class=ApiRoute, dependencies=SENT)


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
                found = await service.backend.retriever.search(query, record.options)
            record.version, record.found = found.version, found.found
        return reply(record, found.found.to_json())

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
        return EventStream(_events(service, record), headers_of(record))

    async def work() -> Response:
        answer = await answered(service, record)
        return reply(record, answer.to_json())

    return await while_connected(request, work())


def reply(record: Record, told: dict[str, Any]) -> Response:
    """A query's reply, with its id and the version that answered."""
    head = {"id": record.id, "version": record.version}
    return JSONResponse(head | told, headers=headers_of(record))


def headers_of(record: Record) -> dict[str, str]:
    """The headers of a query's reply, whatever it is."""
    return {"x-request-id": record.id}


async def answered(service: Service, record: Record) -> Answer:
    """The whole answer. Raises ApiError."""
    async with service.recorded(record):
        options = record.options
        async with in_time("search", options):
            grounded = await service.backend.retriever.ground(record.question, options)
        record.version, record.found = grounded.version, grounded.grounds.found
        writer = service.backend.writer(options)
        async with in_time("generate", options):
            answer = await write(grounded.grounds, writer, service.config.guardrails)
        record.answer = answer
        return answer


async def answered_in_pieces(service: Service, record: Record) -> AsyncGenerator[str | Answer]:
    """Pieces of the draft and the answer; before them `record.found` is set.

    The first item is an empty piece, which says that the search is done. Raises ApiError.
    """
    start = time.perf_counter()
    async with service.recorded(record):
        options = record.options
        async with in_time("search", options):
            grounded = await service.backend.retriever.ground(record.question, options)
        record.version, record.found = grounded.version, grounded.grounds.found
        yield ""
        writer = service.backend.writer(options)
        pieces = write_in_pieces(grounded.grounds, writer, service.config.guardrails)
        async with contextlib.aclosing(pieces):
            while (piece := await _next(pieces, options)) is not None:
                if isinstance(piece, Answer):
                    record.answer = piece
                elif not piece:
                    continue
                elif "first_token_s" not in record.extra:
                    record.extra["first_token_s"] = time.perf_counter() - start
                yield piece


async def _next(pieces: AsyncGenerator[str | Answer], options: Options) -> str | Answer | None:
    """The next piece, in time; None after the last one."""
    try:
        async with asyncio.timeout(options.left_s):
            return await anext(pieces, None)
    except TimeoutError:
        raise DeadlineError("generate") from None


async def _events(service: Service, record: Record) -> AsyncGenerator[bytes]:
    async with contextlib.aclosing(answered_in_pieces(service, record)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Answer):
                told = {"id": record.id, "version": record.version} | piece.to_json()
                del told["hits"]  # they were told first
                yield event("answer", told)
            elif piece:
                yield event("token", {"text": piece})
            elif record.found is not None:
                found = record.found
                told = {"id": record.id, "version": record.version} | found.to_json()
                yield event("hits", told | {"timings_ms": rounded(found.timings_ms)})
