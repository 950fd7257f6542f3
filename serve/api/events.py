"""Server-sent events, which stop their work when the client goes away."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from serve.api.errors import explain

PING_S = 15.0


def event(name: str | None, data: Any) -> bytes:
    """One event; data is written as JSON, a string as it is."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()


class EventStream(Response):
    """A reply of events as they come, with a comment now and then so that proxies keep it open.

    The first event decides the status: an error before it is an ordinary reply, one after it the
    event `error`, which ends the stream.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the events; cancelled when the client is gone."""
        sending = asyncio.ensure_future(self._send(send, scope, receive))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (gone, sending):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await sending

    async def _send(self, send: Send, scope: Scope, receive: Receive) -> None:
        events = aiter(self._events)
        try:
            first = await anext(events)
        except Exception as error:  # noqa: BLE001 - any: it is told in the one shape
            await explain(error).reply()(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await _body(send, first)
        pending: asyncio.Future[bytes] | None = None
        try:
            while True:
                pending = pending or asyncio.ensure_future(anext(events))
                done, _ = await asyncio.wait({pending}, timeout=PING_S)
                if not done:
                    await _body(send, b": ping\n\n")
                    continue
                found, pending = pending, None
                try:
                    await _body(send, found.result())
                except StopAsyncIteration:
                    break
                except Exception as error:  # noqa: BLE001 - any: it is told in the one shape
                    told = {"error": explain(error).body.model_dump()}
                    await _body(send, event("error", told))
                    break
        finally:
            if pending is not None:
                pending.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await pending
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _body(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
