"""What all routes share: who asks, what a request may set, and what is kept of it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer

from rag_cluster.answer.conversation import Turn
from rag_cluster.config import Config
from serve.api.errors import ApiError, client_gone, ending, explain
from serve.api.shapes import Searching
from serve.backend import Backend
from serve.keys import ANYBODY, Buckets, Caller, Keys, is_loopback
from serve.observe import Observer, Record
from serve.options import Options, both, conditions

Result = TypeVar("Result")

# How the key is sent, for the description of the API; `admit` reads it.
SENT = [
    Security(HTTPBearer(auto_error=False, scheme_name="bearer", description="API key")),
    Security(APIKeyHeader(name="x-api-key", auto_error=False, scheme_name="header")),
]


@dataclass
class Service:
    """The backend with the keys, the limits and the observer of this service.

    Once it is `ending`, requests that are cancelled are so by that, and not by their clients.
    """

    backend: Backend
    keys: Keys | None = None
    observer: Observer = field(default_factory=Observer)
    buckets: Buckets = field(default_factory=Buckets)
    ending: bool = False

    @property
    def config(self) -> Config:
        """The configuration that the service was started with."""
        return self.backend.config

    @property
    def transforms(self) -> list[str]:
        """What a request may name as transform."""
        allowed = self.config.service.limits.transforms
        return list(dict.fromkeys([self.config.transform.kind, *allowed]))

    @property
    def rerankers(self) -> list[str]:
        """What a request may name as reranker."""
        allowed = self.config.service.limits.rerankers
        return list(dict.fromkeys([self.config.rerank.kind, *allowed]))

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
        earlier: tuple[Turn, ...] = (),
    ) -> Options:  # fmt: skip
        """The settings of a request, within the limits. Raises ApiError 400."""
        limits = self.config.service.limits
        _most("top_k", asked.top_k, limits.top_k)
        _most("max_tokens", max_tokens, limits.max_tokens)
        _most("filter", conditions(asked.filter), limits.filter_conditions, "has {} conditions")
        _one_of("transform", asked.transform, self.transforms)
        _one_of("rerank", asked.rerank, self.rerankers)
        for channel in asked.channels or ():
            _one_of("channels", channel, self.config.retrieve.channels)
        return Options(
            top_k=asked.top_k,
            where=both(caller.where, asked.filter),
            channels=None if asked.channels is None else tuple(dict.fromkeys(asked.channels)),
            transform=asked.transform,
            rerank=asked.rerank,
            max_tokens=max_tokens,
            temperature=temperature,
            earlier=earlier,
            deadline=self.deadline(asked.deadline_ms),
        )

    def deadline(self, milliseconds: int | None) -> float:
        """When a request must be answered, in seconds since the epoch. Raises ApiError 400."""
        most = self.config.service.limits.deadline_ms
        _most("deadline_ms", milliseconds, most)
        return time.time() + (milliseconds or most) / 1e3

    def check_text(self, name: str, text: str) -> str:
        """A query or question within the limit. Raises ApiError 400."""
        most = self.config.service.limits.query_chars
        _most(name, len(text), most, "has {} characters")
        if not text.strip():
            raise invalid(name, f"{name} is empty")
        return text

    def check_count(self, name: str, count: int) -> None:
        """Raises ApiError 400 for more texts than a request may have."""
        _most(name, count, self.config.service.limits.texts, "has {} texts")

    @contextlib.asynccontextmanager
    async def recorded(self, record: Record) -> AsyncIterator[Record]:
        """Tells the observer of a query when the block has ended, whatever way it ends.

        Errors leave it as ApiError with the record's id in the header x-request-id.
        """
        start = time.perf_counter()
        try:
            yield record
        except (asyncio.CancelledError, GeneratorExit):
            told = ending() if self.ending else client_gone()
            record.status, record.code = told.status, told.body.code
            raise
        except Exception as error:
            told = explain(error)
            told.headers["x-request-id"] = record.id
            record.status, record.code = told.status, told.body.code
            if told is error:
                raise
            raise told from error
        finally:
            record.seconds = time.perf_counter() - start
            self.observer.ended(record)


def service_of(request: Request) -> Service:
    """The service that the app was made for."""
    service: Service = request.app.state.service
    return service


def admit(request: Request) -> Caller:
    """Who asks, by the header Authorization or x-api-key; counted once for a request.

    Raises ApiError 401, 403 and 429.
    """
    known: Caller | None = getattr(request.state, "caller", None)
    if known is None:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            key = request.headers.get("x-api-key", "")
        service = service_of(request)
        _check_reach(service, request)
        known = request.state.caller = service.admit(key.strip() or None)
    return known


def _check_reach(service: Service, request: Request) -> None:
    """Raises ApiError 403 for a request that came from another machine to a service without keys.

    Where it listens is checked when it starts (`keys.check_exposure`); this holds too where Ray
    Serve listens elsewhere than the configuration says. The name in Host is looked at as well: a
    page of another site, whose name was made to lead to this machine, would ask under that name.
    """
    if service.keys is not None or service.config.service.allow_anonymous:
        return
    server = request.scope.get("server")
    asked = re.sub(r":\d*$", "", request.headers.get("host", "localhost"))
    if (server is not None and not is_loopback(server[0])) or not is_loopback(asked.lower()):
        message = (
            "this service has no API keys, so it answers the machine that it runs on alone: make "
            "keys (service.keys), or set service.allow_anonymous"
        )
        raise ApiError(403, "no_keys", message)


# Awaited, or FastAPI would run each of these on a thread.
async def _service(request: Request) -> Service:
    return service_of(request)


async def _caller(request: Request) -> Caller:
    return admit(request)


Serviced = Annotated[Service, Depends(_service)]
Called = Annotated[Caller, Depends(_caller)]


async def while_connected(request: Request, work: Coroutine[Any, Any, Result]) -> Result:
    """The result of the work, which is stopped when the client goes away."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise client_gone()
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def invalid(name: str, message: str) -> ApiError:
    """400 for a value that is not allowed."""
    return ApiError(400, "invalid_request", message, param=name)


def _most(name: str, value: int | None, most: int, told: str = "is {}") -> None:
    if value is not None and value > most:
        raise invalid(name, f"{name} {told.format(f'{value:,}')}; the most is {most:,}")


def _one_of(name: str, value: str | None, allowed: list[str] | tuple[str, ...]) -> None:
    if value is not None and value not in allowed:
        known = ", ".join(map(repr, allowed))
        shown = value if len(value) <= 40 else f"{value[:40]}..."
        raise invalid(name, f"{name} {shown!r} is not allowed by this service, but {known}")
