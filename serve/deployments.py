"""What runs in each replica of Ray Serve: the parts of the service with what Ray adds to them.

Classes are bound in `serve.app`, with the replicas and resources that the configuration says.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from rag_cluster.answer.generate import Draft
from rag_cluster.answer.opening import Models
from rag_cluster.answer.sources import Source
from rag_cluster.config import Config, RerankerKind
from rag_cluster.models.ports import Kind, Vectors
from rag_cluster.storage import Collection
from serve.backend import models_over
from serve.handles import EncoderHandle, GroupHandle, RerankerHandle
from serve.models import Encoding, Scoring, Writing
from serve.options import Options
from serve.published import Published
from serve.retriever import Answered, Grounded, Retriever

# A batch of the encoder costs at most so much; one kilobyte of text, padding included, costs 1.
BATCH_COST = 32

Texts = tuple[Sequence[str], Kind]


def cost(requests: Sequence[Texts]) -> int:
    """What it costs to encode texts together: each counts as the longest one does."""
    lengths = [len(text) for texts, _ in requests for text in texts]
    return math.ceil(max(lengths, default=0) * len(lengths) / 1024)


class Encoder:
    """Encodes what waits together: as many requests as make a batch of about equal cost.

    Queries and passages wait apart, and a batch of queries goes first.
    """

    def __init__(self, config: Config) -> None:
        self._encoding = Encoding(config)

    @serve.batch(max_batch_size=BATCH_COST, batch_wait_timeout_s=0.0, batch_size_fn=cost)  # type: ignore[untyped-decorator]
    async def _queries(self, requests: list[Texts]) -> list[Vectors]:
        return await self._encoding.encode_all(requests)

    @serve.batch(max_batch_size=BATCH_COST, batch_wait_timeout_s=0.0, batch_size_fn=cost)  # type: ignore[untyped-decorator]
    async def _passages(self, requests: list[Texts]) -> list[Vectors]:
        return await self._encoding.encode_all(requests)

    async def encode(self, texts: Sequence[str], kind: Kind = "query") -> Vectors:
        """float32 [len(texts), dim]."""
        if cost([(texts, kind)]) > BATCH_COST:  # a batch of its own
            return await self._encoding.encode(texts, kind)
        together = self._queries if kind == "query" else self._passages
        vectors: Vectors = await together((texts, kind))
        return vectors

    async def late_interaction(self, query: str, texts: Sequence[str]) -> Vectors:
        """See `Encoding.late_interaction`."""
        return await self._encoding.late_interaction(query, texts)

    async def tokens(self, texts: Sequence[str], kind: Kind) -> tuple[list[int], int]:
        """See `Encoding.tokens`."""
        return await self._encoding.tokens(texts, kind)

    async def describe(self) -> tuple[int, str]:
        """See `Encoding.describe`."""
        return await self._encoding.describe()


class Reranker:
    """Scores passages; what the configuration names is loaded before the first request."""

    def __init__(self, config: Config) -> None:
        self._scoring = Scoring(config)
        self._scoring.load()

    async def score(
        self, kind: RerankerKind, model: str | None, query: str, texts: Sequence[str]
    ) -> Vectors:
        """See `Scoring.score`."""
        return await self._scoring.score(kind, model, query, texts)


class RetrieverReplica:
    """Searches the published version, and follows what is published."""

    async def __init__(  # type: ignore[misc]  # Serve awaits it
        self,
        collection: str,
        settings: Mapping[str, Any],
        every_s: float,
        encoder: DeploymentHandle,
        reranker: DeploymentHandle,
        *groups: DeploymentHandle,
    ) -> None:
        encodes, scores = EncoderHandle(encoder), RerankerHandle(reranker)

        def make(config: Config, version: Collection) -> Models:
            return models_over(encodes, scores, config, version)

        parts = [GroupHandle(group) for group in groups]
        self._published = Published(collection, settings, make, encodes.describe, parts)
        await self._published.open()
        self._retriever = Retriever(self._published)
        self._following = asyncio.create_task(self._published.follow(every_s))

    def check_health(self) -> None:
        """Raises where no version is open or new ones are not followed any more."""
        if self._following.done():
            raise RuntimeError(f"new versions are not followed: {self._following.exception()!r}")

    async def search(self, query: str, options: Options) -> Answered:
        """See `Retriever.search`."""
        return await self._retriever.search(query, options)

    async def ground(self, question: str, options: Options) -> Grounded:
        """See `Retriever.ground`."""
        return await self._retriever.ground(question, options)

    async def document(
        self, doc_id: str, where: Mapping[str, Any] | None, start: int, end: int | None
    ) -> dict[str, Any] | None:
        """See `Retriever.document`."""
        return await self._retriever.document(doc_id, where, start, end)

    async def chunk(self, chunk_id: str, where: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """See `Retriever.chunk`."""
        return await self._retriever.chunk(chunk_id, where)

    async def page(
        self, doc_id: str, page: int, where: Mapping[str, Any] | None, width: int
    ) -> bytes | None:
        """See `Retriever.page`."""
        return await self._retriever.page(doc_id, page, where, width)

    async def describe(self, where: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """See `Retriever.describe`."""
        return await self._retriever.describe(where)

    async def status(self) -> dict[str, Any]:
        """See `Retriever.status`."""
        return await self._retriever.status()


class GeneratorReplica:
    """Writes answers."""

    def __init__(
        self, config: Config, encoder: DeploymentHandle, engines: DeploymentHandle | None = None
    ) -> None:
        """`engines` are those of vLLM, where the service has them."""
        llm = None
        if engines is not None:
            from serve.vllm import ServedLLM

            llm = ServedLLM(engines, config)
        self._writing = Writing(config, EncoderHandle(encoder), llm)

    async def generate(self, question: str, sources: Sequence[Source], options: Options) -> Draft:
        """See `Writing.generate`."""
        return await self._writing.generate(question, sources, options)

    async def stream(
        self, question: str, sources: Sequence[Source], options: Options
    ) -> AsyncIterator[str]:
        """See `Writing.stream`."""
        async for piece in self._writing.stream(question, sources, options):
            yield piece
