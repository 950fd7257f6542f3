"""Asking a language model for a question about one chunk, and once more where a rule is broken."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from rag_cluster import prompts
from rag_cluster.answer.sources import Source, join
from rag_cluster.config import Config
from rag_cluster.errors import ModelError
from rag_cluster.models.fitting import beginnings
from rag_cluster.models.ports import LLM, Completion, Message, Request
from rag_cluster.models.prompting import Prompting
from rag_cluster.models.structured import complete_json, repair
from rag_cluster.names import telling_name
from rag_cluster.questions.checks import problem
from rag_cluster.questions.state import Outcome
from rag_cluster.schema import Passage

MAX_TOKENS = 200  # of an answer in JSON
# What asking again adds to a prompt: the answers before, and what was wrong with them.
_AGAIN = 2 * (MAX_TOKENS + 80)
_STRING = {"type": "string"}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"question": _STRING, "answer": _STRING},
    "required": ["question", "answer"],
    "additionalProperties": False,
}


class _Pair(NamedTuple):
    question: str
    answer: str


class Questioner:
    """Makes the request for a chunk, and an outcome of what a language model answers."""

    def __init__(self, llm: LLM, prompting: Prompting, config: Config) -> None:
        self._llm = llm
        self._prompting = prompting
        self._config = config

    def request(self, source: Source) -> Request:
        """What is asked of a source. Raises ModelError where the window has no room for it."""
        frame = self._request(source, "")
        beside = self._prompting.length(frame.messages) + MAX_TOKENS + _AGAIN
        passage = "\n".join(part for part in (source.header, source.text) if part)
        window = self._prompting.window
        return self._request(source, beginnings(self._prompting, [passage], window, beside)[0])

    async def __call__(self, source: Source, request: Request) -> Outcome:
        """What came of the request. Raises ServiceError where the model's server fails."""
        try:
            pair, first = await self._complete(request)
        except ModelError as error:
            return Outcome(reason="no usable answer", detail=str(error))
        if not pair.question:
            return _counted(Outcome(reason="nothing to ask, says the model"), first)
        wrong = problem(*pair, source)
        if wrong is None:
            return _counted(Outcome(*pair), first)
        again = repair(request, first.text, wrong.said, self._config.prompts)
        try:
            pair, second = await self._complete(again)
        except ModelError as error:
            missed = Outcome(reason="no usable answer", detail=str(error), retried=True)
            return _counted(missed, first)
        wrong = problem(*pair, source)
        if wrong is None:
            return _counted(Outcome(*pair, retried=True), first, second)
        refused = Outcome(*pair, reason=wrong.reason, detail=wrong.said, retried=True)
        return _counted(refused, first, second)

    async def _complete(self, request: Request) -> tuple[_Pair, Completion]:
        return await complete_json(self._llm, request, _read, self._config.prompts)

    def _request(self, source: Source, passage: str) -> Request:
        text = prompts.render(
            self._config.prompts, "question", document=_label(source), passage=passage
        )
        return Request(
            (Message("user", text),),
            max_tokens=MAX_TOKENS,
            temperature=self._config.llm.temperature,
            json_schema=SCHEMA,
        )


def source_of(chunk: Mapping[str, Any]) -> Source:
    """A chunk (a row of CHUNK) as the source that an answer would have."""
    first, last = chunk["page_first"], chunk["page_last"]
    passage = Passage(
        rank=1,
        score=0.0,
        chunk_id=chunk["chunk_id"],
        doc_id=chunk["doc_id"],
        uri=chunk["uri"],
        title=chunk["title"] or "",
        pages=None if first is None else (first, last),
        section=chunk["section_path"] or "",
        kind=chunk["kind"],
        parent_id=chunk["parent_id"],
        ordinal=chunk["ordinal"],
        start=chunk["start"],
        end=chunk["end"],
        header=chunk["header"] or "",
        text=chunk["text"],
    )
    return join([(0, passage)])


def _label(source: Source) -> str:
    """What is known of the document: its file's name, its title, and where the chunk stands."""
    parts = (telling_name(source.uri, source.title), source.title, source.section)
    named: list[str] = []
    for part in parts:
        if part and not any(part in other for other in named):
            named.append(part)
    return " > ".join(named) or "without a title"


def _read(found: Any) -> _Pair:
    return _Pair(_text(found["question"]), _text(found["answer"]))


def _text(value: Any) -> str:
    """A text in one line; half of a surrogate pair, which no file can hold, is a question mark."""
    if not isinstance(value, str):
        raise TypeError("question and answer are texts")
    return " ".join(value.encode("utf-8", "replace").decode("utf-8").split())


def _counted(outcome: Outcome, *completions: Completion) -> Outcome:
    return dataclasses.replace(
        outcome,
        prompt_tokens=sum(one.prompt_tokens for one in completions),
        completion_tokens=sum(one.completion_tokens for one in completions),
    )
