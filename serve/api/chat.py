"""POST /v1/chat/completions and GET /v1/models, for clients of OpenAI's API."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from rag_cluster.answer.writing import Answer
from serve.api.errors import ApiError
from serve.api.events import EventStream, event
from serve.api.search import answer_json, answered, answered_in_pieces
from serve.api.service import Called, Service, Serviced, caller_of, while_connected
from serve.api.shapes import ChatRequest, Searching
from serve.observe import Record

router = APIRouter(prefix="/v1", tags=["chat"])

MODEL = "rag-cluster"


@router.get("/models", dependencies=[Depends(caller_of)])
async def models() -> dict[str, Any]:
    """The one model: the collection behind its generator."""
    return {
        "object": "list",
        "data": [{"id": MODEL, "object": "model", "created": 0, "owned_by": "rag-cluster"}],
    }


@router.post("/chat/completions")
async def completions(
    body: ChatRequest, request: Request, service: Serviced, caller: Called
) -> Response:
    """Answer the last message of a conversation; citations and hits come as further fields."""
    question = service.check_text("messages", _question(body))
    searching = Searching.model_validate(
        {name: getattr(body, name) for name in Searching.model_fields}
    )
    tokens = body.max_completion_tokens or body.max_tokens
    options = service.options(searching, caller, max_tokens=tokens, temperature=body.temperature)
    record = Record("chat", caller, question, options)
    if body.stream:
        return EventStream(_chunks(service, record, body))

    async def work() -> Response:
        answer = await answered(service, record, question)
        return JSONResponse(_completion(record, answer))

    return await while_connected(request, work())


def _question(body: ChatRequest) -> str:
    users = [message.text for message in body.messages if message.role == "user"]
    if not users:
        raise ApiError(400, "invalid_request", "messages has none of the user", param="messages")
    return users[-1]


def _completion(record: Record, answer: Answer) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer.answer}
    return {
        "id": f"chatcmpl-{record.id}",
        "object": "chat.completion",
        "created": int(record.began),
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": _usage(answer),
    } | _beside(record, answer)


async def _chunks(service: Service, record: Record, body: ChatRequest) -> AsyncIterator[bytes]:
    """Chunks of OpenAI's streams: the last one before the usage carries citations and hits."""
    usage = bool(body.stream_options and body.stream_options.include_usage)
    async for piece in answered_in_pieces(service, record, record.question):
        if isinstance(piece, Answer):
            yield event(None, _chunk(record, {}, "stop") | _beside(record, piece))
            if usage:
                last = _chunk(record, {}, None) | {"choices": [], "usage": _usage(piece)}
                yield event(None, last)
        else:
            yield event(None, _chunk(record, {"content": piece} if piece else _FIRST, None))
    yield event(None, "[DONE]")


_FIRST = {"role": "assistant", "content": ""}


def _chunk(record: Record, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{record.id}",
        "object": "chat.completion.chunk",
        "created": int(record.began or time.time()),
        "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}],
    }


def _usage(answer: Answer) -> dict[str, int]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }


def _beside(record: Record, answer: Answer) -> dict[str, Any]:
    """What OpenAI's shape has no place for."""
    told = answer_json(record, answer)
    names = ("version", "question", "answer", "citations", "hits", "guardrails", "notes",
             "timings_ms")  # fmt: skip
    return {name: told[name] for name in names}
