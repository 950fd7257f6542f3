"""Answers in JSON: asked for by a schema, read leniently, checked, and asked for once more."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rag_cluster import prompts
from rag_cluster.errors import ModelError
from rag_cluster.models.ports import LLM, Completion, Message, Request

Value = TypeVar("Value")
_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)


async def ask_json(
    llm: LLM, request: Request, read: Callable[[Any], Value], replaced: Mapping[str, str]
) -> Value:
    """What `read` makes of the JSON that the model answers with; see `complete_json`."""
    value, _ = await complete_json(llm, request, read, replaced)
    return value


async def complete_json(
    llm: LLM, request: Request, read: Callable[[Any], Value], replaced: Mapping[str, str]
) -> tuple[Value, Completion]:
    """What `read` makes of the JSON that the model answers with, and the completion.

    `read` raises ValueError, TypeError or KeyError for JSON that is not what was asked for. Then,
    and where there is no JSON, the model is told what was wrong and asked once more (the prompt
    `repair`); `replaced` are the configuration's prompts. The token counts are those of both.
    Raises ModelError where that fails too.
    """
    first = await llm.generate(request)
    try:
        return read_json(first.text, read), first
    except ValueError as error:
        again = repair(request, first.text, str(error), replaced)
    second = await llm.generate(again)
    counts = {
        name: getattr(first, name) + getattr(second, name)
        for name in ("prompt_tokens", "completion_tokens", "cached_tokens")
    }
    try:
        return read_json(second.text, read), dataclasses.replace(second, **counts)
    except ValueError as error:
        raise ModelError(f"{llm.name!r} did not answer as it was asked to: {error}") from None


def repair(request: Request, answer: str, problem: str, replaced: Mapping[str, str]) -> Request:
    """The request with the answer that was wrong, and what was wrong with it."""
    turns = (
        Message("assistant", answer),
        Message("user", prompts.render(replaced, "repair", problem=problem)),
    )
    return dataclasses.replace(request, messages=(*request.messages, *turns))


def read_json(answer: str, read: Callable[[Any], Value]) -> Value:
    """What `read` makes of the first JSON value of an answer, which may stand in a fence or prose.

    Raises ValueError that says what is wrong.
    """
    fenced = _FENCED.search(answer)
    text = fenced.group(1) if fenced else answer
    begin = re.search(r"[\[{]", text)
    if begin is None:
        raise ValueError("there is no JSON in it")
    try:
        found, _ = json.JSONDecoder().raw_decode(text, begin.start())
    except ValueError as error:
        raise ValueError(f"the JSON cannot be read: {error}") from None
    try:
        return read(found)
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"the JSON is not what was asked for: {error}") from None


def dump_json(value: Any) -> str:
    """The JSON text of a value that a model gave, as it can be stored.

    Half of a surrogate pair, which a model may leave of a character, becomes a question mark.
    """
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")
