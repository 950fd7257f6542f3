"""GET /metrics, and what watches every request: its count, its time, its span."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serve.api.errors import ApiError
from serve.api.service import Called, Serviced
from serve.metrics import AT_WORK, ERRORS, REQUEST_SECONDS, REQUESTS
from serve.observe import Observer

router = APIRouter(tags=["health"])

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
CLIENT_GONE = 499


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(service: Serviced, caller: Called) -> Response:
    """Counts and latencies for Prometheus; where there are keys, for one without a filter."""
    if caller.where:
        # The counts are those of all keys together, and name them.
        message = "metrics are not shown to an API key with a filter: use one without"
        raise ApiError(403, "key_has_filter", message)
    return Response(await service.observer.meters.text(), media_type=CONTENT_TYPE)


class Watched:
    """Tells the observer of every request, by the template of its route."""

    def __init__(self, app: ASGIApp, observer: Observer) -> None:
        self._app = app
        self._observer = observer
        self._at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, and watches its reply."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        reply = Reply(send)
        start = time.perf_counter()
        self._count(1)
        with self._observer.request_span(scope["method"], scope["headers"]) as span:
            try:
                await self._app(scope, receive, reply)
            except asyncio.CancelledError:
                reply.gone = True
                raise
            except Exception:
                # The server answers with 500 after this has passed.
                reply.status = reply.status or 500
                raise
            finally:
                self._count(-1)
                self._ended(scope, reply, time.perf_counter() - start, span)

    def _count(self, more: int) -> None:
        self._at_work += more
        self._observer.meters.set(AT_WORK, self._at_work)

    def _ended(self, scope: Scope, reply: Reply, seconds: float, span: Any) -> None:
        state, meters, route = scope["state"], self._observer.meters, template_of(scope)
        status = reply.status if reply.complete else CLIENT_GONE
        code = state.get("error_code")
        if code is None and status >= 400:
            code = "client_closed_request" if status == CLIENT_GONE else "internal_error"
        caller = state.get("caller")
        key = "" if caller is None else caller.name
        meters.add(REQUESTS, route=route, status=str(status), key=key)
        meters.observe(REQUEST_SECONDS, seconds, route=route)
        if code is not None:
            meters.add(ERRORS, route=route, code=code)
        if span is not None:
            span.ended(route, status, code)


class Reply:
    """Sends a reply on, and keeps its status and whether it came to its end."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0
        self.gone = False
        self._whole = False

    @property
    def complete(self) -> bool:
        """Whether there was a reply to its end, or an error that the server answers."""
        return not self.gone and (self._whole or self.status >= 500)

    async def __call__(self, message: Message) -> None:
        """ASGI's send."""
        await self._send(message)
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self._whole = True


def template_of(scope: Scope) -> str:
    """The route's path with names in place of values; "other" for paths that are none."""
    route = scope.get("route")
    if route is None:
        # Answered before it was routed, or by what is no route of the API.
        for other in scope["app"].router.routes:
            if other.matches(scope)[0] is not Match.NONE:
                route = other
                break
    template: str = getattr(route, "path", "other")
    return template
