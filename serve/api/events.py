"""Server-sent events, which stop their work when the client goes away."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from serve.api.errors import ApiError, ending, explain, leave_code

PING_S = 15.0
# A client that takes nothing for so long is taken to be gone.
SEND_S = 30.0


def event(name: str | None, data: Any) -> bytes:
    """One event; data is written as JSON, a string as it is."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode("utf-8", "replace")


class EventStream(Response):
    """A reply of events as they come, with a comment now and then so that proxies keep it open.

    The first event decides the status: an error before it is an ordinary reply, one after it the
    event `error`, which ends the stream. So does the end of the server.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes], headers: dict[str, str]) -> None:
        own = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(headers=own | headers)
        del self.headers["content-length"]
        self._events = events
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events; their work is cancelled when the client is gone."""
        sending = asyncio.ensure_future(self._send(scope, receive, send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                with contextlib.suppress(TimeoutError):
                    sending.result()
        except asyncio.CancelledError:
            sending.cancel()
            if self._begun:  # at once: a server that ends waits for nothing more
                await _last(scope, send, ending())
            raise
        finally:
            await _stop(sending, gone)

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        made: asyncio.Queue[bytes | ApiError | None] = asyncio.Queue(maxsize=1)
        making = asyncio.ensure_future(self._make(made))
        try:
            one = await made.get()
            if isinstance(one, ApiError):
                await one.reply()(scope, receive, send)
                return None
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            self._begun = True
            while one is not None:
                if isinstance(one, ApiError):
                    return await _last(scope, send, one)
                await _body(send, one)
                one = await _next(made)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await _stop(making)

    async def _make(self, made: asyncio.Queue[bytes | ApiError | None]) -> None:
        """All events come out of one task, so that what they are made in is theirs throughout."""
        try:
            async with contextlib.aclosing(self._events) as events:
                async for one in events:
                    await made.put(one)
        except Exception as error:  # noqa: BLE001 - any: it is told in the one shape
            await made.put(explain(error))
        await made.put(None)


async def _next(made: asyncio.Queue[bytes | ApiError | None]) -> bytes | ApiError | None:
    """What comes next; a comment where that takes long."""
    try:
        async with asyncio.timeout(PING_S):
            return await made.get()
    except TimeoutError:
        return b": ping\n\n"


async def _body(send: Send, data: bytes) -> None:
    async with asyncio.timeout(SEND_S):
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _last(scope: Scope, send: Send, error: ApiError) -> None:
    """Ends a stream with an error."""
    leave_code(scope, error.body.code)
    await _body(send, event("error", {"error": error.body.model_dump()}))
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _stop(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
