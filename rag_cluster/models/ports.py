"""The ports: what the pipeline and the query path ask of models, and nothing more.

Encoder and Scorer are plain synchronous objects: a batch worker calls them on its own process.
On the query path the same work is awaited (AsyncEncoder, AsyncScorer), so that a service can put a
remote replica behind it; `rag_cluster.models.threads` makes either of a synchronous one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Kind = Literal["query", "passage"]
Span = tuple[int, int]  # [start, end) of a text, in code points


class Encoder(Protocol):
    """Texts to vectors."""

    @property
    def dim(self) -> int:
        """The number of dimensions of a vector."""

    @property
    def max_tokens(self) -> int:
        """The window: tokens of a text that are read, special tokens included."""

    @property
    def revision(self) -> str:
        """What exactly the weights are (a hub commit, or a hash of the files)."""

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> Vectors:
        """float32 [len(texts), dim]; prefixes of the kind are added, then cut at the window."""

    def encode_tokens(self, texts: Sequence[str], kind: Kind = "passage") -> list[Vectors]:
        """For each text float32 [tokens, dim], each row of length 1 (for late interaction)."""

    def encode_spans(self, texts: Sequence[str], spans: Sequence[Sequence[Span]]) -> list[Vectors]:
        """For each passage float32 [its spans, dim]: vectors of parts, read within the whole.

        That of a span of the whole passage is what `encode` gives. Raises ModelError where the
        model's vectors cannot be taken apart so.
        """


class Scorer(Protocol):
    """A query and passages to relevance scores; higher is better, the scale is the model's own."""

    def score(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [len(texts)], in the order of the texts."""


class AsyncEncoder(Protocol):
    """An encoder that is awaited."""

    async def encode(self, texts: Sequence[str], kind: Kind = "query") -> Vectors:
        """float32 [len(texts), dim]."""


class AsyncScorer(Protocol):
    """A scorer that is awaited."""

    async def score(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [len(texts)]."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """What a language model is asked. `stop` ends the completion before any of its strings.

    `json_schema` says what JSON is wanted. Engines that can keep to a schema do; the answer of any
    is to be checked (`models.structured`).
    """

    messages: tuple[Message, ...]
    max_tokens: int = 400
    temperature: float = 0.0
    stop: tuple[str, ...] = field(default=())
    json_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What a language model said. Token counts are the engine's own, 0 where it gives none.

    `cached_tokens` are those of the prompt that the engine had computed before.
    """

    text: str
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


class LLM(Protocol):
    """A language model."""

    @property
    def name(self) -> str:
        """The model's id, as it stands in results."""

    async def generate(self, request: Request) -> Completion:
        """The whole completion. Raises ModelError or ServiceError; never an empty excuse."""

    def stream(self, request: Request) -> AsyncIterator[str]:
        """Pieces of the completion as they come."""

    async def likelihoods(self, request: Request, choices: Sequence[str]) -> list[float]:
        """How likely the completion begins with each choice, as natural logarithms.

        A choice is one token, whatever its case and the space before it; -inf where the engine does
        not list it. Raises ModelError or ServiceError, also where the engine gives no likelihoods.
        """
