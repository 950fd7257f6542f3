"""What the replicas of the models do. Each class is also used in one process, without Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from rag_cluster.answer.generate import Draft, Generator, language_model, load_generator
from rag_cluster.answer.opening import load_scorer_of
from rag_cluster.answer.sources import Source
from rag_cluster.config import Config, RerankerKind
from rag_cluster.models.encoder import load_encoder
from rag_cluster.models.ports import LLM, AsyncEncoder, Encoder, Kind, Scorer, Vectors
from rag_cluster.models.scorer import LateInteractionScorer
from rag_cluster.models.tokenizer import load_tokenizer
from serve.options import Options
from serve.turns import Turns

# So many texts are encoded in one go, which nothing interrupts.
PIECE = 16

Computed = TypeVar("Computed")


class Encoding:
    """The collection's encoder: vectors, and late interaction by its tokens' vectors."""

    def __init__(self, config: Config) -> None:
        self._embed = config.embed
        self._encoder: Encoder = load_encoder(config.embed)
        self._late = LateInteractionScorer(self._encoder)
        self._turns = Turns()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")

    async def encode(self, texts: Sequence[str], kind: Kind = "query") -> Vectors:
        """float32 [len(texts), dim]. Between pieces others have their turn, or it is cancelled."""
        if not texts:
            return (await self.encode_all([(texts, kind)]))[0]
        pieces = [(await self.encode_all([(piece, kind)]))[0] for piece in _pieces(texts)]
        return np.concatenate(pieces)

    async def encode_all(self, requests: Sequence[tuple[Sequence[str], Kind]]) -> list[Vectors]:
        """For each request float32 [its texts, dim], encoded together.

        Queries go before passages, which generators and batches ask for many at a time.
        """
        rank = max((kind == "passage" for _, kind in requests), default=0)
        return await self._compute(rank, encode_together, self._encoder, requests)

    async def late_interaction(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [len(texts)]: MaxSim of the query's and each text's token vectors."""
        pieces = [
            await self._compute(1, self._late.score, query, piece) for piece in _pieces(texts)
        ]
        return np.concatenate([np.empty(0, np.float32), *pieces])

    async def _compute(self, rank: int, compute: Callable[..., Computed], *given: Any) -> Computed:
        loop = asyncio.get_running_loop()
        async with self._turns.turn(rank):
            return await loop.run_in_executor(self._thread, compute, *given)

    async def tokens(self, texts: Sequence[str], kind: Kind = "query") -> tuple[list[int], int]:
        """For each text its tokens as `encode` reads it, and how many of them it reads at most."""
        return await asyncio.to_thread(self._tokens, texts, kind)

    def _tokens(self, texts: Sequence[str], kind: Kind) -> tuple[list[int], int]:
        embed = self._embed
        tokenizer = load_tokenizer(embed.model, embed.revision)
        prefix = embed.query_prefix if kind == "query" else embed.passage_prefix
        counts = tokenizer.count([prefix + text for text in texts])
        return [count + tokenizer.special_tokens for count in counts], self._encoder.max_tokens

    async def describe(self) -> tuple[int, str]:
        """The dimension, and what exactly the weights are."""
        return self._encoder.dim, self._encoder.revision


def _pieces(texts: Sequence[str]) -> list[list[str]]:
    return [list(texts[start : start + PIECE]) for start in range(0, len(texts), PIECE)]


def encode_together(
    encoder: Encoder, requests: Sequence[tuple[Sequence[str], Kind]]
) -> list[Vectors]:
    """For each request float32 [its texts, dim]; texts of one kind go to the encoder at once."""
    found: list[Vectors] = [np.empty((0, encoder.dim), np.float32)] * len(requests)
    for kind in dict.fromkeys(kind for _, kind in requests):
        mine = [number for number, (_, other) in enumerate(requests) if other == kind]
        texts = [text for number in mine for text in requests[number][0]]
        ends = np.cumsum([len(requests[number][0]) for number in mine])[:-1]
        parts = np.split(encoder.encode(texts, kind), ends) if texts else []
        for number, part in zip(mine, parts, strict=False):
            found[number] = part
    return found


class Scoring:
    """Rerankers that read query and passage together, each loaded when it is first asked."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._scorers: dict[tuple[RerankerKind, str | None], Scorer] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scorer")

    async def score(
        self, kind: RerankerKind, model: str | None, query: str, texts: Sequence[str]
    ) -> Vectors:
        """float32 [len(texts)]. Raises ModelError where the model cannot be loaded."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(
            self._thread, self._score, kind, model, query, list(texts)
        )

    def load(self) -> None:
        """Loads what the configuration names, so that the first request need not wait for it."""
        for stage in self._config.rerank.used:
            if not stage.asks and (stage.kind, stage.model) != ("late_interaction", None):
                self._scorer(stage.kind, stage.model)

    def _score(
        self, kind: RerankerKind, model: str | None, query: str, texts: list[str]
    ) -> Vectors:
        return self._scorer(kind, model).score(query, texts)

    def _scorer(self, kind: RerankerKind, model: str | None) -> Scorer:
        if (kind, model) not in self._scorers:
            self._scorers[kind, model] = load_scorer_of(kind, model, self._config)
        return self._scorers[kind, model]


class Writing:
    """The generator. `llm` takes the place of the one that the configuration names."""

    def __init__(self, config: Config, encoder: AsyncEncoder, llm: LLM | None = None) -> None:
        self._config = config
        self._encoder = encoder
        if llm is None and config.generate.kind != "extractive":
            from rag_cluster.models.llm import load_llm

            llm = load_llm(language_model(config.generate), "generate")
        self._llm = llm

    async def generate(self, question: str, sources: Sequence[Source], options: Options) -> Draft:
        """The whole draft. Raises ModelError or ServiceError."""
        return await self._generator(options).generate(question, sources)

    async def stream(
        self, question: str, sources: Sequence[Source], options: Options
    ) -> AsyncIterator[str]:
        """The draft in pieces. Raises ModelError or ServiceError."""
        async for piece in self._generator(options).stream(question, sources):
            yield piece

    def _generator(self, options: Options) -> Generator:
        config = options.effective(self._config)
        language = config.index.lexical.language
        return load_generator(config.generate, self._encoder, self._llm, language)
