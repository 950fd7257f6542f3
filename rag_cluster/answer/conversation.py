"""The last question of a conversation, written so that it can be searched without the rest.

With a language model it is asked for once (the prompt `standalone`). Without one, or where that
fails, a rule takes its place: a question that leans on what was said before (`leaning.leans`) is
joined with the questions that it leans on, and any other one stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rag_cluster import prompts
from rag_cluster.answer.leaning import leans
from rag_cluster.errors import ModelError, ServiceError
from rag_cluster.models.fitting import beginnings
from rag_cluster.models.ports import Message, Request
from rag_cluster.models.structured import read_json
from rag_cluster.retrieve.transform import Model

# What a language model is shown of the turns before the question.
MOST_TURNS = 8
TURN_TOKENS = 200
# What it may write beyond the question's own length.
MORE_TOKENS = 128
# Questions that a rule joins: the one that all others lean on, and the last ones.
MOST_JOINED = 3

_SCHEMA = {
    "type": "object",
    "properties": {"question": {"type": "string"}},
    "required": ["question"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said before the question."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Standalone:
    """A question that needs no conversation. `note` says why a rule wrote it, if a model failed."""

    question: str
    note: str | None = None


async def standalone(
    question: str,
    turns: Sequence[Turn],
    model: Model | None,
    *,
    timeout_s: float,
    most_chars: int,
) -> Standalone:
    """The question as it can be understood without the turns before it, oldest first.

    `timeout_s` is what the model may take; `most_chars` how long the question may become.
    """
    if not turns:
        return Standalone(question)
    if model is None:
        return Standalone(joined(question, turns, most_chars))
    try:
        async with asyncio.timeout(timeout_s):
            return Standalone(await _asked(question, turns, model, most_chars))
    except TimeoutError:
        reason = f"no answer within {timeout_s:.3g} s"
    except (ModelError, ServiceError) as error:
        reason = str(error)
    note = f"the language model did not make the question standalone, a rule did: {reason}"
    return Standalone(joined(question, turns, most_chars), note)


def joined(question: str, turns: Sequence[Turn], most_chars: int) -> str:
    """The question behind those of the user's that it leans on; itself where it leans on none.

    Of many, the first, which all others lean on, and the last ones are kept; and of these the
    last ones, where all are longer than `most_chars`.
    """
    if not leans(question):
        return question
    questions = [" ".join(question.split())]
    for turn in reversed([turn for turn in turns if turn.role == "user" and turn.text.strip()]):
        questions.insert(0, " ".join(turn.text.split()))
        if not leans(turn.text):
            break
    if len(questions) > MOST_JOINED:
        questions = [questions[0], *questions[1 - MOST_JOINED :]]
    while len(questions) > 1 and len(" ".join(questions)) > most_chars:
        del questions[0]
    return " ".join(questions)


async def _asked(question: str, turns: Sequence[Turn], model: Model, most_chars: int) -> str:
    """The question that the model writes. Raises ModelError and ServiceError."""
    llm, prompting, replaced = model
    shown = turns[-MOST_TURNS:]

    def prompt(conversation: str) -> str:
        return prompts.render(replaced, "standalone", conversation=conversation, question=question)

    most_tokens = prompting.count(question) + MORE_TOKENS
    beside = prompting.length((Message("user", prompt("")),)) + most_tokens
    texts = beginnings(prompting, [turn.text for turn in shown], TURN_TOKENS, beside)
    said = "\n\n".join(
        f"{turn.role.capitalize()}: {text}" for turn, text in zip(shown, texts, strict=True)
    )
    request = Request((Message("user", prompt(said)),), max_tokens=most_tokens, json_schema=_SCHEMA)
    completion = await llm.generate(request)
    try:
        return read_json(completion.text, lambda value: _read(value, most_chars))
    except ValueError as error:
        raise ModelError(f"{llm.name!r} did not answer as it was asked to: {error}") from None


def _read(value: Any, most_chars: int) -> str:
    """The question of an answer. Raises ValueError, TypeError or KeyError."""
    written = value["question"]
    if not isinstance(written, str) or not written.strip():
        raise ValueError("question must be a text")
    if len(written) > most_chars:
        raise ValueError(f"question has {len(written):,} characters; the most is {most_chars:,}")
    return " ".join(written.encode("utf-8", "replace").decode("utf-8").split())
