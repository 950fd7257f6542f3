"""What is made of a query before it is searched.

- hyde: passages that a language model writes in answer to it, whose vectors are averaged with its
  own. Gao et al.: Precise Zero-Shot Dense Retrieval without Relevance Labels (ACL 2023).
- multi_query: other ways to ask it, each searched, fused by reciprocal rank.
- step_back: a more general question, searched beside it.
  Zheng et al.: Take a Step Back (ICLR 2024).
- feedback: words of the first results are added to it for BM25, weighted as RM3 does.
- feedback_llm: the same with words that a language model picks from the first results.

A transform that fails leaves the query as it is, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rag_cluster import prompts
from rag_cluster.config import Transform
from rag_cluster.errors import ModelError, ServiceError
from rag_cluster.models.fitting import beginnings
from rag_cluster.models.ports import LLM, Message, Request, Vectors
from rag_cluster.models.prompting import Prompting
from rag_cluster.models.structured import ask_json
from rag_cluster.models.together import together
from rag_cluster.retrieve.feedback import Terms, expansion, interpolated

# Of a passage that a language model picks words from.
PASSAGE_TOKENS = 200


class Found(NamedTuple):
    """The first results of a query: their texts and scores, best first."""

    texts: Sequence[str]
    scores: Sequence[float]


@dataclass(frozen=True, slots=True)
class Transformed:
    """What is searched in place of a query.

    `queries` are searched each, the first being the query itself. `documents` are passages whose
    vectors are averaged with the first query's. `words` are what BM25 searches in place of it, each
    with its weight. `note` says why it is only the query itself, where that is a failure.
    """

    kind: str
    queries: tuple[str, ...]
    documents: tuple[str, ...] = ()
    words: Mapping[str, float] = field(default_factory=dict)
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Only what there is."""
        made: dict[str, Any] = {"kind": self.kind, "queries": list(self.queries)}
        if self.documents:
            made["documents"] = list(self.documents)
        if self.words:
            made["words"] = {word: round(weight, 6) for word, weight in self.words.items()}
        return made


class Model(NamedTuple):
    """A language model with how its prompts are cut, and the prompts that the user replaced."""

    llm: LLM
    prompting: Prompting
    replaced: Mapping[str, str]


class Transformer:
    """The transform of a configuration. `model` is needed by every kind but feedback."""

    def __init__(self, config: Transform, terms_of: Terms, model: Model | None = None) -> None:
        """`terms_of` cuts a text into the terms of BM25."""
        self._config = config
        self._terms_of = terms_of
        self._model = model

    @property
    def reads(self) -> int:
        """How many of the first results it reads."""
        return self._config.documents if self._config.kind in ("feedback", "feedback_llm") else 0

    async def __call__(
        self, query: str, found: Found | None = None, most_s: float | None = None
    ) -> Transformed:
        """What to search; `found` are the first results, where it reads any.

        It takes `transform.timeout_s` at most, or `most_s` where that is less.
        """
        kind, own_s = self._config.kind, self._config.timeout_s
        try:
            async with asyncio.timeout(own_s if most_s is None else min(own_s, most_s)):
                return await self._transformed(query, found)
        except TimeoutError:
            reason = f"no answer within transform.timeout_s ({own_s:g})"
            if most_s is not None and most_s < own_s:
                reason = f"no answer within the {most_s:.3g} s that it had of the request's time"
        except (ModelError, ServiceError) as error:
            reason = str(error)
        note = f"transform {kind} failed, and the query was searched as it is: {reason}"
        return Transformed(kind, (query,), note=note)

    async def _transformed(self, query: str, found: Found | None) -> Transformed:
        kind = self._config.kind
        match kind:
            case "hyde":
                return Transformed(kind, (query,), documents=await self._passages(query))
            case "multi_query":
                return Transformed(kind, (query, *await self._paraphrases(query)))
            case "step_back":
                return Transformed(kind, (query, *await self._abstractions(query)))
            case "feedback" | "feedback_llm" if found is not None and found.texts:
                words = await self._widened(query, found)
                return Transformed(kind, (query,), words=words)
            case _:
                return Transformed(kind, (query,))

    async def _passages(self, query: str) -> tuple[str, ...]:
        llm, _, replaced = self._asked()
        request = self._request(
            prompts.render(replaced, "hyde", query=query), temperature=self._config.temperature
        )
        completions = await together(llm.generate(request) for _ in range(self._config.count))
        texts = (completion.text.strip() for completion in completions)
        passages = tuple(dict.fromkeys(text for text in texts if text))
        if not passages:
            raise ModelError(f"{llm.name!r} gave empty passages")
        return passages

    async def _paraphrases(self, query: str) -> list[str]:
        llm, _, replaced = self._asked()
        count = self._config.count
        text = prompts.render(replaced, "multi_query", query=query, count=str(count))
        return await ask_json(
            llm,
            self._request(text, _list_of("queries")),
            lambda value: _strings(value, "queries", besides=query)[:count],
            replaced,
        )

    async def _abstractions(self, query: str) -> list[str]:
        llm, _, replaced = self._asked()
        text = prompts.render(replaced, "step_back", query=query)
        return await ask_json(
            llm,
            self._request(text, _list_of("queries")),
            lambda value: _strings(value, "queries", besides=query)[:1],
            replaced,
        )

    async def _widened(self, query: str, found: Found) -> dict[str, float]:
        """The query and words of its first results, with their weights."""
        if self._config.kind == "feedback":
            added = expansion(found.texts, found.scores, self._config.terms, self._terms_of)
        else:
            added = await self._picked(query, found.texts)
        return interpolated(query, added, self._config.original_weight, self._terms_of)

    async def _picked(self, query: str, texts: Sequence[str]) -> dict[str, float]:
        llm, prompting, replaced = self._asked()
        terms = self._config.terms

        def prompt(passages: str) -> str:
            return prompts.render(
                replaced, "feedback", query=query, count=str(terms), passages=passages
            )

        beside = prompting.length((Message("user", prompt("")),)) + self._config.max_tokens
        passages = beginnings(prompting, texts, PASSAGE_TOKENS, beside)
        picked = await ask_json(
            llm,
            self._request(prompt("\n\n".join(passages)), _list_of("terms")),
            lambda value: _strings(value, "terms")[:terms],
            replaced,
        )
        return {term: 1 / len(picked) for term in picked}

    def _asked(self) -> Model:
        assert self._model is not None  # the configuration was checked
        return self._model

    def _request(
        self, prompt: str, schema: Mapping[str, Any] | None = None, temperature: float = 0.0
    ) -> Request:
        return Request(
            (Message("user", prompt),),
            max_tokens=self._config.max_tokens,
            temperature=temperature,
            json_schema=schema,
        )


def average(query: Vectors, passages: Vectors, *, unit: bool) -> Vectors:
    """The mean of a query's vector and those of passages: float32 [1, dim], of length 1 if `unit`.

    Takes float32 [1, dim] and [n, dim]. As Gao et al. (2023): the query counts as one more passage.
    """
    mean: Vectors = np.concatenate([query, passages]).mean(axis=0, keepdims=True)
    if unit:
        mean /= max(float(np.linalg.norm(mean)), 1e-12)
    return mean


def _list_of(name: str) -> dict[str, Any]:
    strings = {"type": "array", "items": {"type": "string"}}
    return {
        "type": "object",
        "properties": {name: strings},
        "required": [name],
        "additionalProperties": False,
    }


def _strings(value: Any, name: str, besides: str = "") -> list[str]:
    """The distinct texts of a list in an answer. Raises ValueError where there is none."""
    found = value[name] if isinstance(value, dict) else value
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise ValueError(f"{name} must be a list of texts")
    flat = dict.fromkeys(" ".join(text.split()) for text in found)
    texts = [text for text in flat if text and text != besides]
    if not texts:
        raise ValueError(f"{name} holds nothing new")
    return texts
