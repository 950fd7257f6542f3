"""The service in one process, without Ray: the same API over the same parts, for one machine."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import uvicorn

from rag_cluster.answer.generate import Draft
from rag_cluster.answer.sources import Source
from rag_cluster.config import Config
from serve.api import create_app
from serve.api.places import Places
from serve.api.service import Service
from serve.backend import Backend, Writes, in_process, service_config
from serve.keys import keys_of
from serve.listening import bound, listen, url
from serve.metrics import LocalMeters
from serve.observe import Observer
from serve.options import Options
from serve.published import Published

# What is at work when the service is to end has so long.
END_S = 20
# What is cut off then has so long to reply and be logged.
CUT_OFF_S = 2
# Connections that may wait to be taken.
BACKLOG = 128
# What asyncio says many times a second is logged once in so long.
SILENT_S = 10

log = logging.getLogger(__name__)


@contextlib.contextmanager
def served(
    collection: str, settings: Mapping[str, Any], tell: Callable[[str], None] = lambda _: None
) -> Iterator[str]:
    """Serves a collection while the block runs; gives the url. Requests at work are ended first.

    `tell` gets a line for each thing that the start takes. Raises ConfigError, CollectionError and
    ModelError before anything is listened at.
    """
    config = service_config(collection, settings)
    keys_of(config)  # raises where they cannot be used
    up: Future[uvicorn.Server] = Future()
    with bound(config.service) as listening:
        making = in_process(collection, settings, tell)
        work = _serve(making, config, listening, up)
        thread = threading.Thread(target=asyncio.run, args=[work], daemon=True)
        thread.start()
        server = _started(up)
        try:
            yield url(listening)
        finally:
            server.should_exit = True
            _wait(thread, server)


def _started(up: Future[uvicorn.Server]) -> uvicorn.Server:
    """The server when it listens; a signal before that leaves none behind."""
    try:
        return up.result()
    except KeyboardInterrupt:
        if not up.cancel():
            up.result().should_exit = True
        raise


def _wait(thread: threading.Thread, server: uvicorn.Server) -> None:
    """Waits for what is at work, and not for what computes in a thread; a signal ends that."""
    try:
        thread.join(END_S + 2 * CUT_OFF_S)
    except KeyboardInterrupt:
        server.force_exit = True
        thread.join(CUT_OFF_S)
        raise


async def _serve(
    making: Coroutine[Any, Any, tuple[Backend, Published]], config: Config,
    listening: socket.socket, up: Future[uvicorn.Server],
) -> None:  # fmt: skip
    """Answers requests until the server is told to end; `up` gets it, or why there is none."""
    asyncio.get_running_loop().set_exception_handler(Complaints())
    try:
        backend, published = await making
        places = Places("the generator", config.service.generator)
        backend = replace(backend, writes=Generating(backend.writes, places))
        observer = Observer.of(config, LocalMeters())
        service = Service(backend, keys_of(config), observer)
        app = create_app(service, Places("the service", config.service.ingress))
        server = Server(
            uvicorn.Config(
                app, access_log=False, log_level=config.service.log_level, lifespan="off",
                timeout_graceful_shutdown=END_S, backlog=BACKLOG, ws="none",
            ),
            service,
        )  # fmt: skip
        listen(listening, BACKLOG)  # who connects from now on is answered
    except Exception as error:  # noqa: BLE001 - it is raised where the service was asked for
        if up.set_running_or_notify_cancel():
            up.set_exception(error)
        return
    if not up.set_running_or_notify_cancel():
        return
    up.set_result(server)
    following = asyncio.create_task(published.follow(config.service.poll_s))
    try:
        await server.serve([listening])
    finally:
        following.cancel()
        if cut_off := server.server_state.tasks:  # they reply and are logged
            await asyncio.wait(cut_off, timeout=CUT_OFF_S)
        observer.close()


class Complaints:
    """What asyncio complains of, but that descriptors have run out not for each that waits."""

    def __init__(self) -> None:
        self._silent_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handles a complaint, as `loop.set_exception_handler` has it."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
        elif loop.time() >= self._silent_until:
            self._silent_until = loop.time() + SILENT_S
            log.error("connections wait, as descriptors have run out: raise ulimit -n (%s)", error)


class Server(uvicorn.Server):
    """Tells the service that it ends, so that what is cut off is not taken for a client's doing."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends what is at work within the grace."""
        self._service.ending = True
        await super().shutdown(sockets)


class Generating:
    """A generator of which no more is asked than of a replica of Ray Serve."""

    def __init__(self, writes: Writes, places: Places) -> None:
        self._writes = writes
        self._places = places

    async def generate(self, question: str, sources: Sequence[Source], options: Options) -> Draft:
        """See `Writing.generate`. Raises ApiError 503."""
        async with self._places.place():
            return await self._writes.generate(question, sources, options)

    async def stream(
        self, question: str, sources: Sequence[Source], options: Options
    ) -> AsyncIterator[str]:
        """See `Writing.stream`. Raises ApiError 503."""
        async with self._places.place():
            async for piece in self._writes.stream(question, sources, options):
                yield piece
