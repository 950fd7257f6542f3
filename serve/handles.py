"""Deployments of Ray Serve as the ports of `serve.backend`.

A caller that goes away, or whose time is up, stops the work behind the handle too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from ray.exceptions import RayActorError
from ray.serve.handle import DeploymentHandle, DeploymentResponse

from rag_cluster.answer.channels import Lookup
from rag_cluster.answer.generate import Draft
from rag_cluster.answer.sources import Source
from rag_cluster.config import RerankerKind
from rag_cluster.models.ports import Kind, Vectors
from serve.groups import Found
from serve.options import Options
from serve.retriever import Answered, Grounded


async def result(method: DeploymentHandle, *arguments: Any) -> Any:
    """What a replica answers; when this is cancelled, so is the replica's work.

    A replica that dies at work is no fault of the request's, and nothing that is asked changes
    anything: another replica is asked then, once.
    """
    try:
        return await _answer(method.remote(*arguments))
    except RayActorError:
        return await _answer(method.remote(*arguments))


async def _answer(response: DeploymentResponse) -> Any:
    try:
        return await response
    except asyncio.CancelledError:
        response.cancel()
        raise


class RetrieverHandle:
    """`backend.Retrieves` on replicas."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def search(self, query: str, options: Options) -> Answered:
        """See `Retriever.search`."""
        found: Answered = await result(self._handle.search, query, options)
        return found

    async def ground(self, question: str, options: Options) -> Grounded:
        """See `Retriever.ground`."""
        found: Grounded = await result(self._handle.ground, question, options)
        return found

    async def document(
        self, doc_id: str, where: Mapping[str, Any] | None, start: int = 0, end: int | None = None
    ) -> dict[str, Any] | None:
        """See `Retriever.document`."""
        found: dict[str, Any] | None = await result(
            self._handle.document, doc_id, where, start, end
        )
        return found

    async def chunk(self, chunk_id: str, where: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """See `Retriever.chunk`."""
        found: dict[str, Any] | None = await result(self._handle.chunk, chunk_id, where)
        return found

    async def page(
        self, doc_id: str, page: int, where: Mapping[str, Any] | None, width: int
    ) -> bytes | None:
        """See `Retriever.page`."""
        image: bytes | None = await result(self._handle.page, doc_id, page, where, width)
        return image

    async def describe(self, where: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """See `Retriever.describe`."""
        found: dict[str, Any] = await result(self._handle.describe, where)
        return found

    async def status(self) -> dict[str, Any]:
        """See `Retriever.status`."""
        found: dict[str, Any] = await result(self._handle.status)
        return found


class GroupHandle:
    """`groups.Asks` on replicas."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def search(
        self, version: str, names: Sequence[str], lookups: Sequence[Lookup], k: int,
        where: Mapping[str, Any] | None,
    ) -> Found:  # fmt: skip
        """See `Group.search`."""
        found: Found = await result(
            self._handle.search, version, list(names), list(lookups), k, where
        )
        return found


class EncoderHandle:
    """`backend.Encodes` on replicas."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def encode(self, texts: Sequence[str], kind: Kind = "query") -> Vectors:
        """See `Encoding.encode`."""
        vectors: Vectors = await result(self._handle.encode, list(texts), kind)
        return vectors

    async def late_interaction(self, query: str, texts: Sequence[str]) -> Vectors:
        """See `Encoding.late_interaction`."""
        scores: Vectors = await result(self._handle.late_interaction, query, list(texts))
        return scores

    async def tokens(self, texts: Sequence[str], kind: Kind = "query") -> tuple[list[int], int]:
        """See `Encoding.tokens`."""
        counts, window = await result(self._handle.tokens, list(texts), kind)
        return counts, window

    async def describe(self) -> tuple[int, str]:
        """See `Encoding.describe`."""
        dim, revision = await result(self._handle.describe)
        return dim, revision


class RerankerHandle:
    """`backend.Scores` on replicas."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def score(
        self, kind: RerankerKind, model: str | None, query: str, texts: Sequence[str]
    ) -> Vectors:
        """See `Scoring.score`."""
        scores: Vectors = await result(self._handle.score, kind, model, query, list(texts))
        return scores


class GeneratorHandle:
    """`backend.Writes` on replicas."""

    def __init__(self, handle: DeploymentHandle) -> None:
        self._handle = handle

    async def generate(self, question: str, sources: Sequence[Source], options: Options) -> Draft:
        """See `Writing.generate`."""
        draft: Draft = await result(self._handle.generate, question, list(sources), options)
        return draft

    async def stream(
        self, question: str, sources: Sequence[Source], options: Options
    ) -> AsyncIterator[str]:
        """See `Writing.stream`."""
        pieces = self._handle.options(stream=True).stream.remote(question, list(sources), options)
        try:
            async for piece in pieces:
                yield piece
        finally:  # also when nobody reads on
            pieces.cancel()
