"""A synchronous model as one that is awaited, each on a worker thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from rag_cluster.models.ports import Encoder, Kind, Scorer, Vectors


class AsyncEncoderThread:
    """An AsyncEncoder over an Encoder; calls are answered one after another."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")

    async def encode(self, texts: Sequence[str], kind: Kind = "query") -> Vectors:
        """float32 [len(texts), dim]."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._encoder.encode, list(texts), kind)

    def close(self) -> None:
        """Ends the thread after the call it is at."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncScorerThread:
    """An AsyncScorer over a Scorer; calls are answered one after another."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scorer")

    async def score(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [len(texts)]."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._scorer.score, query, list(texts))

    def close(self) -> None:
        """Ends the thread after the call it is at."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
