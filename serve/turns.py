"""Who goes next, where one can be at work at a time."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import AsyncIterator


class Turns:
    """One at a time. The lowest rank goes first, and of equal ranks who came first."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._taken = False

    @contextlib.asynccontextmanager
    async def turn(self, rank: int) -> AsyncIterator[None]:
        """Waits for a turn, and has it while the block runs."""
        if self._taken:
            mine = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (rank, next(self._numbers), mine))
            try:
                await mine
            except asyncio.CancelledError:
                if not mine.cancelled():  # it was given at the same moment
                    self._give()
                raise
        self._taken = True
        try:
            yield
        finally:
            self._give()

    def _give(self) -> None:
        while self._waiting:
            *_, waiting = heapq.heappop(self._waiting)
            if not waiting.done():
                waiting.set_result(None)
                return
        self._taken = False
