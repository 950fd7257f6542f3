"""What all routes share: who asks, what a request may set, and what is kept of it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from rag_cluster.config import Config
from serve.api.errors import ApiError, explain
from serve.api.shapes import Searching
from serve.backend import Backend
from serve.keys import ANYBODY, Buckets, Caller, Keys
from serve.observe import Observer, Record
from serve.options import Options

Result = TypeVar("Result")

bearer = HTTPBearer(auto_error=False, description="API key", scheme_name="key")


@dataclass
class Service:
    """The backend with the keys, the limits and the observer of this service."""

    backend: Backend
    keys: Keys | None = None
    observer: Observer = field(default_factory=Observer)
    buckets: Buckets = field(default_factory=Buckets)

    @property
    def config(self) -> Config:
        """The configuration that the service was started with."""
        return self.backend.config

    def admit(self, key: str | None) -> Caller:
        """Who asks. Raises ApiError 401 and 429."""
        if self.keys is None:
            return ANYBODY
        caller = None if not key else self.keys.find(key)
        if caller is None:
            what = "no API key was sent" if not key else "this API key is not known"
            message = f"{what}: send one as 'Authorization: Bearer KEY'"
            headers = {"WWW-Authenticate": "Bearer"}
            raise ApiError(401, "invalid_api_key", message, headers=headers)
        wait = self.buckets.wait_s(caller)
        if wait:
            message = f"more than {caller.requests_per_minute:g} requests per minute"
            headers = {"Retry-After": str(max(1, round(wait)))}
            raise ApiError(429, "rate_limit_exceeded", message, headers=headers)
        return caller

    def options(
        self, asked: Searching, caller: Caller,
        *, max_tokens: int | None = None, temperature: float | None = None,
    ) -> Options:  # fmt: skip
        """The settings of a request, within the limits. Raises ApiError 400."""
        limits = self.config.service.limits
        _most("top_k", asked.top_k, limits.top_k)
        _most("max_tokens", max_tokens, limits.max_tokens)
        _most("deadline_ms", asked.deadline_ms, limits.deadline_ms)
        own = self.config
        _one_of("transform", asked.transform, [own.transform.kind, *limits.transforms])
        _one_of("rerank", asked.rerank, [own.rerank.kind, *limits.rerankers])
        for channel in asked.channels or ():
            _one_of("channels", channel, own.retrieve.channels)
        return Options(
            top_k=asked.top_k,
            where=both(caller.where, asked.filter),
            channels=None if asked.channels is None else tuple(dict.fromkeys(asked.channels)),
            transform=asked.transform,
            rerank=asked.rerank,
            max_tokens=max_tokens,
            temperature=temperature,
            deadline=time.time() + (asked.deadline_ms or limits.deadline_ms) / 1e3,
        )

    def check_text(self, name: str, text: str) -> str:
        """A query or question within the limit. Raises ApiError 400."""
        most = self.config.service.limits.query_chars
        if len(text) > most:
            raise _invalid(name, f"{name} has {len(text):,} characters; the most is {most:,}")
        if not text.strip():
            raise _invalid(name, f"{name} is empty")
        return text

    @contextlib.asynccontextmanager
    async def recorded(self, record: Record) -> AsyncIterator[Record]:
        """Tells the observer of a query when the block has ended, whatever way it ends."""
        start = time.perf_counter()
        try:
            yield record
        except asyncio.CancelledError:
            record.status, record.code = 499, "client_closed_request"
            raise
        except Exception as error:
            told = explain(error)
            record.status, record.code = told.status, told.body.code
            raise
        finally:
            record.seconds = time.perf_counter() - start
            self.observer.ended(record)


def service_of(request: Request) -> Service:
    """The service that the app was made for."""
    service: Service = request.app.state.service
    return service


def caller_of(request: Request) -> Caller:
    """Who asks, by the header Authorization or x-api-key. Raises ApiError 401 and 429."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        key = request.headers.get("x-api-key", "")
    return service_of(request).admit(key.strip() or None)


Serviced = Annotated[Service, Depends(service_of)]
Called = Annotated[Caller, Depends(caller_of)]


def both(
    enforced: Mapping[str, Any] | None, asked: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """The filter that lets through what both do."""
    if not enforced or not asked:
        return enforced or asked or None
    return {"and": [enforced, asked]}


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work, which is stopped when the client goes away."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise asyncio.CancelledError
        return task.result()
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _most(name: str, value: int | None, most: int) -> None:
    if value is not None and value > most:
        raise _invalid(name, f"{name} is {value:,}; this service allows {most:,}")


def _one_of(name: str, value: str | None, allowed: list[str] | tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        known = ", ".join(dict.fromkeys(allowed))
        raise _invalid(name, f"{name} {value!r} is not allowed by this service: there are {known}")


def _invalid(name: str, message: str) -> ApiError:
    return ApiError(400, "invalid_request", message, param=name)
