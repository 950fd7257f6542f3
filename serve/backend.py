"""What the API asks, whatever it runs on: in one process, or deployments of Ray Serve."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rag_cluster.answer.generate import Draft
from rag_cluster.answer.opening import Models, query_config_over
from rag_cluster.answer.sources import Source
from rag_cluster.config import Config, RerankerKind
from rag_cluster.errors import ConfigError
from rag_cluster.models.ports import AsyncEncoder, AsyncScorer, Kind, Vectors
from rag_cluster.storage import Collection
from serve.models import Encoding, Scoring, Writing
from serve.options import Options
from serve.published import Published
from serve.retriever import Answered, Grounded, Retriever


class Retrieves(Protocol):
    """See `serve.retriever.Retriever`."""

    async def search(self, query: str, options: Options) -> Answered: ...
    async def ground(self, question: str, options: Options) -> Grounded: ...
    async def document(
        self, doc_id: str, where: Mapping[str, Any] | None, start: int = 0, end: int | None = None
    ) -> dict[str, Any] | None: ...
    async def chunk(
        self, chunk_id: str, where: Mapping[str, Any] | None
    ) -> dict[str, Any] | None: ...
    async def page(
        self, doc_id: str, page: int, where: Mapping[str, Any] | None, width: int
    ) -> bytes | None: ...
    async def describe(self, where: Mapping[str, Any] | None = None) -> dict[str, Any]: ...
    async def status(self) -> dict[str, Any]: ...


class Encodes(Protocol):
    """See `serve.models.Encoding`."""

    async def encode(self, texts: Sequence[str], kind: Kind = "query") -> Vectors: ...
    async def late_interaction(self, query: str, texts: Sequence[str]) -> Vectors: ...
    async def tokens(self, texts: Sequence[str], kind: Kind = "query") -> tuple[list[int], int]: ...
    async def describe(self) -> tuple[int, str]: ...


class Scores(Protocol):
    """See `serve.models.Scoring`."""

    async def score(
        self, kind: RerankerKind, model: str | None, query: str, texts: Sequence[str]
    ) -> Vectors: ...


class Writes(Protocol):
    """See `serve.models.Writing`."""

    async def generate(
        self, question: str, sources: Sequence[Source], options: Options
    ) -> Draft: ...
    def stream(
        self, question: str, sources: Sequence[Source], options: Options
    ) -> AsyncIterator[str]: ...


@dataclass(frozen=True)
class Backend:
    """The parts of the service."""

    config: Config
    retriever: Retrieves
    encoder: Encodes
    scores: Scores
    writes: Writes

    def writer(self, options: Options) -> Writer:
        """What writes answers with the settings of a request."""
        return Writer(self.writes, options)

    def scorer(self) -> Scorer:
        """The configured reranker; without one, late interaction by the collection's encoder."""
        for stage in self.config.rerank.used:
            if not stage.asks:
                return Scorer(self.encoder, self.scores, stage.kind, stage.model)
        return Scorer(self.encoder, self.scores, "late_interaction", None)


@dataclass(frozen=True)
class Scorer:
    """A reranker of one kind and model as an AsyncScorer."""

    encoder: Encodes
    scores: Scores
    kind: RerankerKind
    model: str | None

    @property
    def is_encoder(self) -> bool:
        """Whether the collection's encoder is what scores."""
        return (self.kind, self.model) == ("late_interaction", None)

    async def score(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [len(texts)]."""
        if self.is_encoder:
            return await self.encoder.late_interaction(query, texts)
        return await self.scores.score(self.kind, self.model, query, texts)


@dataclass(frozen=True)
class Writer:
    """`answer.writing.Writer` with the settings of one request."""

    writes: Writes
    options: Options

    async def generate(self, question: str, sources: Sequence[Source]) -> Draft:
        """The whole draft."""
        return await self.writes.generate(question, sources, self.options)

    def stream(self, question: str, sources: Sequence[Source]) -> AsyncIterator[str]:
        """The draft in pieces."""
        return self.writes.stream(question, sources, self.options)


def models_over(encoder: Encodes, scores: Scores, config: Config, collection: Collection) -> Models:
    """Models of a version whose encoder and rerankers run elsewhere."""

    def scorer(kind: RerankerKind, model: str | None) -> AsyncScorer:
        return Scorer(encoder, scores, kind, model)

    remote: AsyncEncoder = encoder
    return Models(config, collection, remote, scorer)


def service_config(path: str | Path, settings: Mapping[str, Any]) -> Config:
    """The configuration of the published version with a tree of settings over it.

    Raises ConfigError, also for a generator without its model, and CollectionError.
    """
    config = query_config_over(Collection.open(path), settings)
    if config.generate.kind != "extractive" and config.generate.model is None:
        kind = config.generate.kind
        raise ConfigError(f"generate.kind is {kind}: name its model in generate.model")
    return config


async def in_process(
    path: str | Path, settings: Mapping[str, Any], tell: Callable[[str], None] = lambda _: None
) -> tuple[Backend, Published]:
    """All parts in this process, and the version, to be followed; `tell` gets what is done.

    Raises CollectionError, ModelError.
    """
    config = await asyncio.to_thread(service_config, path, settings)
    tell(f"loading the encoder {config.embed.model}")
    encoder, scores = await asyncio.to_thread(lambda: (Encoding(config), Scoring(config)))

    def make(version: Config, collection: Collection) -> Models:
        return models_over(encoder, scores, version, collection)

    published = Published(path, settings, make, encoder.describe)
    tell(f"opening {path}")
    await published.open()
    writes = Writing(config, encoder)
    return Backend(config, Retriever(published), encoder, scores, writes), published
