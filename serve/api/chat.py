"""POST /v1/chat/completions and GET /v1/models, for clients of OpenAI's API."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from rag_cluster.answer.conversation import Turn
from rag_cluster.answer.writing import Answer
from serve.api.errors import ApiError
from serve.api.events import EventStream, event
from serve.api.incoming import ApiRoute
from serve.api.replies import ChatReply, Model, ModelsReply
from serve.api.search import answered, answered_in_pieces, headers_of
from serve.api.service import SENT, Called, Service, Serviced, invalid, while_connected
from serve.api.shapes import ChatMessage, ChatRequest
from serve.observe import Record

router = APIRouter(prefix="/v1", tags=["chat"], route_class=ApiRoute, dependencies=SENT)

MODEL = "rag-cluster"
_CARD = {"id": MODEL, "object": "model", "created": 0, "owned_by": "rag-cluster"}
_FIRST = {"role": "assistant", "content": ""}
_SPEAKERS = {"user", "assistant"}


@router.get("/models", response_model=ModelsReply)
async def models() -> Response:
    """The one model: the collection behind its generator."""
    return JSONResponse({"object": "list", "data": [_CARD]})


@router.get("/models/{model}", response_model=Model)
async def model_of(model: str) -> Response:
    """The same by its name."""
    if model != MODEL:
        raise ApiError(404, "model_not_found", f"there is one model, {MODEL!r}", param="model")
    return JSONResponse(_CARD)


@router.post(
    "/chat/completions",
    response_model=ChatReply,
    response_model_exclude_none=True,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Completion, or chunks"}},
)
async def completions(
    body: ChatRequest, request: Request, service: Serviced, caller: Called
) -> Response:
    """Answer the last message of the user; earlier turns make it a standalone question.

    Citations, hits, guardrails and what was searched come as further fields; in a stream they are
    in the chunk that ends the choice. Any `model` is taken. Messages of the system are not used:
    what the model is told is the service's own.
    """
    asked, earlier = _split(body.messages)
    question = service.check_text("messages", asked)
    options = service.options(
        body.searching, caller, temperature=body.temperature,
        max_tokens=body.max_completion_tokens or body.max_tokens, earlier=earlier,
    )  # fmt: skip
    record = Record("chat", caller, question, options)
    notes = _unused(body)
    if body.stream:
        return EventStream(_chunks(service, record, body, notes), headers_of(record))

    async def work() -> Response:
        answer = await answered(service, record)
        return JSONResponse(_completion(record, answer, notes), headers=headers_of(record))

    return await while_connected(request, work())


def _split(messages: list[ChatMessage]) -> tuple[str, tuple[Turn, ...]]:
    """The last message of the user, and what was said before it."""
    places = [place for place, message in enumerate(messages) if message.role == "user"]
    if not places:
        raise invalid("messages", "messages has none of the user")
    earlier = [
        Turn("user" if message.role == "user" else "assistant", message.said)
        for message in messages[: places[-1]]
        if message.role in _SPEAKERS and message.said.strip()
    ]
    return messages[places[-1]].said, tuple(earlier)


def _unused(body: ChatRequest) -> list[str]:
    """Notes on what was sent and plays no part."""
    notes = []
    if names := body.unused:
        notes.append(f"not used: {', '.join(names[:20])}")
    if roles := sorted({one.role for one in body.messages} - _SPEAKERS):
        notes.append(f"messages not used: those of {', '.join(roles)}")
    if any(message.has_more for message in body.messages):
        notes.append("parts of messages not used: those that are no text")
    return notes


def _completion(record: Record, answer: Answer, notes: list[str]) -> dict[str, Any]:
    message = {"role": "assistant", "content": answer.answer, "refusal": None}
    return {
        "id": f"chatcmpl-{record.id}",
        "object": "chat.completion",
        "created": int(record.began),
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
    } | _usage(answer) | _beside(record, answer, notes)  # fmt: skip


async def _chunks(
    service: Service, record: Record, body: ChatRequest, notes: list[str]
) -> AsyncGenerator[bytes]:
    """Chunks of OpenAI's streams: that which ends the choice carries citations and hits."""
    with_usage = bool(body.stream_options and body.stream_options.include_usage)
    async with contextlib.aclosing(answered_in_pieces(service, record)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Answer):
                yield event(None, _chunk(record, {}, "stop") | _beside(record, piece, notes))
                usage = _usage(piece)
                if with_usage and usage:
                    yield event(None, _chunk(record, {}, None) | {"choices": []} | usage)
            else:
                yield event(None, _chunk(record, {"content": piece} if piece else _FIRST, None))
    yield event(None, "[DONE]")


def _chunk(record: Record, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{record.id}",
        "object": "chat.completion.chunk",
        "created": int(record.began),
        "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}],
    }


def _usage(answer: Answer) -> dict[str, Any]:
    """Tokens as the language model's server counted them; nothing where it did not."""
    prompt, completion = answer.prompt_tokens, answer.completion_tokens
    if not prompt and not completion:
        return {}
    counts = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {"usage": counts | {"total_tokens": prompt + completion}}


def _beside(record: Record, answer: Answer, notes: list[str]) -> dict[str, Any]:
    """What OpenAI's shape has no place for."""
    told = answer.to_json()
    names = ("question", "answer", "citations", "hits", "guardrails", "timings_ms")
    return {
        "version": record.version,
        **{name: told[name] for name in names},
        "notes": [*notes, *told["notes"]],
    }
