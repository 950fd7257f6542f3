"""The service in one process, without Ray: the same API over the same parts, for one machine."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from rag_cluster.config import Config, Replicas
from rag_cluster.errors import ConfigError
from serve.api import create_app
from serve.api.errors import overloaded
from serve.api.service import Service
from serve.backend import in_process, service_config
from serve.keys import keys_of
from serve.listening import bound, url
from serve.metrics import LocalMeters
from serve.observe import Observer

# What operators ask is answered however much there is to do.
NOT_COUNTED = ("/healthz", "/readyz", "/metrics")
END_S = 20


@contextlib.contextmanager
def served(collection: str, settings: Mapping[str, Any]) -> Iterator[str]:
    """Serves a collection while the block runs; gives the url. Requests at work are ended first.

    Raises ConfigError, CollectionError and ModelError before anything is listened at.
    """
    config = service_config(collection, settings)
    keys_of(config)  # raises where they cannot be used
    if config.generate.kind == "vllm":
        raise ConfigError("vLLM's engines run on Ray: serve without --one-process")
    up: Future[uvicorn.Server] = Future()
    with bound(config.service) as listening:
        work = _serve(collection, settings, config, listening, up)
        thread = threading.Thread(target=asyncio.run, args=[work])
        thread.start()
        try:
            server = up.result()
            try:
                yield url(config.service)
            finally:
                server.should_exit = True
        finally:
            thread.join()


async def _serve(
    collection: str, settings: Mapping[str, Any], config: Config, listening: socket.socket,
    up: Future[uvicorn.Server],
) -> None:  # fmt: skip
    """Answers requests until the server is told to end; `up` gets it, or why there is none."""
    try:
        backend, published = await in_process(collection, settings)
        observer = Observer.of(config, LocalMeters())
        app = create_app(Service(backend, keys_of(config), observer))
        options = uvicorn.Config(
            Gate(app, config.service.ingress), log_level=config.service.log_level,
            access_log=False, timeout_graceful_shutdown=END_S,
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001 - it is raised where the service was asked for
        up.set_exception(error)
        return
    server = uvicorn.Server(options)
    listening.listen()  # who connects from now on is answered
    up.set_result(server)
    following = asyncio.create_task(published.follow(config.service.poll_s))
    try:
        await server.serve([listening])
    finally:
        following.cancel()
        observer.close()


class Gate:
    """Lets so many requests work, and so many wait, as Ray Serve does; the others get 503."""

    def __init__(self, app: ASGIApp, limits: Replicas) -> None:
        self._app = app
        self._turn = asyncio.Semaphore(limits.max_ongoing_requests)
        queue = limits.max_queued_requests
        self._most = math.inf if queue < 0 else limits.max_ongoing_requests + queue
        self._here = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands the request on when it is its turn, or replies 503."""
        if scope["type"] != "http" or scope["path"] in NOT_COUNTED:
            await self._app(scope, receive, send)
            return
        if self._here >= self._most:
            await overloaded("the service").reply()(scope, receive, send)
            return
        self._here += 1
        try:
            async with self._turn:
                await self._app(scope, receive, send)
        finally:
            self._here -= 1
