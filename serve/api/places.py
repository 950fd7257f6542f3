"""Places for requests, where the app itself sees to it that they are not too many."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rag_cluster.config import Replicas
from serve.api.errors import ApiError, ending, overloaded

# What operators ask is answered however much there is to do.
NOT_COUNTED = ("/healthz", "/readyz", "/metrics")


class Places:
    """So many at work and so many that wait, as a replica of Ray Serve has them."""

    def __init__(self, what: str, limits: Replicas) -> None:
        """`what` is named to those who are refused."""
        self._what = what
        self._work = asyncio.Semaphore(limits.max_ongoing_requests)
        queue = limits.max_queued_requests
        self._most = math.inf if queue < 0 else limits.max_ongoing_requests + queue
        self._here = 0

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Waits for a place, and has it while the block runs. Raises ApiError 503."""
        if self._here >= self._most:
            raise overloaded(self._what)
        self._here += 1
        try:
            async with self._work:
                yield
        finally:
            self._here -= 1


class Gate:
    """Lets a request in when there is a place, or replies 503.

    A server that ends cancels what is still at work: that is replied to with 503 too, and a stream
    that had begun breaks off.
    """

    def __init__(self, app: ASGIApp, places: Places) -> None:
        self._app = app
        self._places = places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands the request on when it is its turn."""
        if scope["type"] != "http" or scope["path"] in NOT_COUNTED:
            await self._app(scope, receive, send)
            return
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            async with self._places.place():
                await self._app(scope, receive, noted)
        except ApiError as error:
            await error.reply()(scope, receive, send)
        except asyncio.CancelledError:
            if not begun:
                await ending().reply()(scope, receive, send)
