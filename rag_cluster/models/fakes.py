"""Deterministic models without weights, for tests and for trying a pipeline out.

They are shipped because a configuration can name them (`embed.model: fake:64`,
`rerank.model: fake:overlap`) and because code that is given a port is best tested with these.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rag_cluster.errors import ModelError
from rag_cluster.models.ports import Completion, Kind, Request, Span, Vectors

# A word, or one character of a script that is written without spaces.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u9fff]+")


def words(text: str) -> list[str]:
    """The lower-case words of a text, in order."""
    return _WORD.findall(text.lower())


class FakeEncoder:
    """A hashed bag of words: texts that share words are near, and nothing is random.

    Each word has a fixed direction of `dim` pseudo-random signs; a text's vector is the normalised
    sum over its first `max_tokens` - 2 words. A text without words has the vector of no word at
    all, so that every vector has length 1.
    """

    def __init__(self, dim: int = 64, max_tokens: int = 256) -> None:
        if dim < 1:
            raise ModelError(f"fake:{dim}: the dimension must be at least 1")
        self.dim = dim
        self.max_tokens = max_tokens
        self.revision = f"fake:{dim}"

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> Vectors:  # noqa: ARG002
        """float32 [len(texts), dim], each row of length 1."""
        sums = [self._directions(text).sum(axis=0) for text in texts]
        # The first component breaks the tie where the signs of a text's words cancel out.
        vectors = np.array(sums, dtype=np.float32).reshape(len(texts), self.dim)
        vectors[:, 0] += 1e-3
        unit: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit

    def encode_tokens(self, texts: Sequence[str], kind: Kind = "passage") -> list[Vectors]:  # noqa: ARG002
        """For each text float32 [words, dim], each row of length 1."""
        scale = np.float32(1 / np.sqrt(self.dim))
        return [self._directions(text) * scale for text in texts]

    def encode_spans(self, texts: Sequence[str], spans: Sequence[Sequence[Span]]) -> list[Vectors]:
        """For each text float32 [its spans, dim]; what stands around a span plays no part."""
        return [
            self.encode([text[start:end] for start, end in own])
            for text, own in zip(texts, spans, strict=True)
        ]

    def _directions(self, text: str) -> Vectors:
        found = words(text)[: self.max_tokens - 2] or [""]
        return np.stack([self._direction(word) for word in found])

    def _direction(self, word: str) -> Vectors:
        bits = hashlib.shake_128(word.encode("utf-8", "surrogatepass")).digest(-(-self.dim // 8))
        signs = np.unpackbits(np.frombuffer(bits, np.uint8), count=self.dim)
        return signs.astype(np.float32) * 2 - 1


class FakeScorer:
    """The share of the query's distinct words that stand in the passage, in [0, 1]."""

    def score(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [len(texts)]."""
        asked = set(words(query))
        shares = [len(asked & set(words(text))) / max(len(asked), 1) for text in texts]
        return np.array(shares, dtype=np.float32)


Rule = Callable[[Request], str]


class FakeLLM:
    """Answers from a script (one text per call, in order) or by a rule (a function of the request).

    `requests` keeps what was asked. A script that is used up raises ModelError. Stop strings and
    `max_tokens` (counted in words) cut the answer as a real engine would. `delay_s` is waited
    before an answer.
    """

    def __init__(self, answers: Sequence[str] | Rule = (), *, delay_s: float = 0.0) -> None:
        self.name = "fake"
        self.requests: list[Request] = []
        self._rule = answers if callable(answers) else _script(answers)
        self._delay_s = delay_s

    async def generate(self, request: Request) -> Completion:
        """The next answer, cut at its stop strings and at `max_tokens` words."""
        self.requests.append(request)
        await asyncio.sleep(self._delay_s)
        pieces = _pieces(cut_at(self._rule(request), request.stop))[: request.max_tokens]
        asked = sum(len(_pieces(message.content)) for message in request.messages)
        return Completion("".join(pieces), asked, len(pieces))

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """The next answer, word by word."""
        completion = await self.generate(request)
        for piece in _pieces(completion.text):
            yield piece

    async def likelihoods(self, request: Request, choices: Sequence[str]) -> list[float]:
        """By the next answer: a choice, which then has .9, or the first choice's probability."""
        said = (await self.generate(request)).text.strip()
        wanted = choices.index(said) if said in choices else 0
        likely = 0.9 if said in choices else float(said)
        rest = (1 - likely) / max(1, len(choices) - 1)
        found = [likely if place == wanted else rest for place in range(len(choices))]
        return [math.log(share) if share > 0 else -math.inf for share in found]


class EchoLLM:
    """Answers with the longest words of what it was asked last, in their order; `llm.engine: fake`.

    Where JSON is wanted, every string of it is that answer. Token counts are words, and none is
    cached.
    """

    name = "fake"

    async def generate(self, request: Request) -> Completion:
        """At most `max_tokens` words, and at most 12."""
        asked = words(request.messages[-1].content)
        most = min(12, request.max_tokens)
        kept = sorted(dict.fromkeys(asked), key=lambda word: (-len(word), word))[:most]
        said = " ".join(word for word in dict.fromkeys(asked) if word in kept) or "nothing"
        if request.json_schema is not None:
            said = json.dumps(_instance(request.json_schema, said), ensure_ascii=False)
        count = sum(len(words(message.content)) for message in request.messages)
        return Completion(said, count, len(words(said)))

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """The answer, word by word."""
        for piece in _pieces((await self.generate(request)).text):
            yield piece

    async def likelihoods(self, request: Request, choices: Sequence[str]) -> list[float]:  # noqa: ARG002
        """The same for every choice."""
        return [-math.log(len(choices))] * len(choices)


def _instance(schema: Mapping[str, Any], said: str) -> Any:
    """The smallest JSON value of a schema, with `said` as each of its strings."""
    match schema.get("type"):
        case "object":
            return {name: _instance(one, said) for name, one in schema["properties"].items()}
        case "array":
            return [_instance(schema["items"], said)]
        case "boolean":
            return True
        case "integer" | "number":
            return 1
        case _:
            return said


def cut_at(text: str, stop: Sequence[str]) -> str:
    """The text before the first of the stop strings."""
    found = [text.find(string) for string in stop if string and string in text]
    return text[: min(found)] if found else text


def _script(answers: Sequence[str]) -> Rule:
    left = iter(list(answers))

    def rule(request: Request) -> str:
        answer = next(left, None)
        if answer is None:
            raise ModelError(f"the fake's script is used up; asked: {request.messages[-1:]}")
        return answer

    return rule


def _pieces(text: str) -> list[str]:
    """Words with the space after them; joined they are the text."""
    return re.findall(r"\s*\S+\s*", text)
