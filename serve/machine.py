"""The service on one machine: its own Ray, the application, and an end without lost requests."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ray
from ray import serve

from rag_cluster import cluster
from rag_cluster.config import Service
from rag_cluster.errors import RagClusterError, ServiceError
from serve.app import application
from serve.backend import service_config
from serve.keys import keys_of
from serve.listening import bound, url

NAME = "rag-cluster"
TELL_S = 10.0
LOGS = "/tmp/ray/session_latest/logs/serve"  # noqa: S108 - where Ray writes them


@contextlib.contextmanager
def served(
    collection: str, settings: Mapping[str, Any], tell: Callable[[str], None] = lambda _: None
) -> Iterator[str]:
    """Serves a collection while the block runs; gives the url.

    It runs on a Ray of its own, or on the cluster that `resources.address` or RAY_ADDRESS names.
    `tell` gets a line every ten seconds that it takes to start. Raises ConfigError, CollectionError
    and ModelError before anything is listened at.
    """
    config = service_config(collection, settings)
    keys_of(config)  # raises where they cannot be used
    service = config.service
    with bound(service) as listening:
        port, address = listening.getsockname()[1], url(listening)
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    with cluster.joined(config, cpus=_cpus(service)):
        quiet = {"log_level": service.log_level.upper(), "enable_access_log": False}
        with _explained():
            serve.start(http_options={"host": service.host, "port": port}, logging_config=quiet)
        try:
            with _explained(), _waiting(tell):
                serve.run(application(collection, settings), name=NAME, route_prefix="/")
            yield address
        finally:
            serve.delete(NAME)  # and nothing else that may be served on a cluster that was joined


@contextlib.contextmanager
def _waiting(tell: Callable[[str], None]) -> Iterator[None]:
    """Tells which parts are not up yet, and what Ray says of them."""
    ended, begun = threading.Event(), time.monotonic()
    told: set[str] = set()

    def look() -> None:
        found = serve.status().applications.get(NAME)
        parts = {} if found is None else found.deployments
        waits = [name for name, part in parts.items() if part.status != "HEALTHY"]
        if waits and not ended.is_set():
            tell(f"waiting for {', '.join(waits)} ({time.monotonic() - begun:.0f} s)")
        for text in {" ".join(parts[name].message.split()) for name in waits} - {""} - told:
            told.add(text)
            tell(f"  {text}")

    def look_on() -> None:
        while not ended.wait(TELL_S):
            with contextlib.suppress(Exception):  # `serve.run` says what is wrong with Ray Serve
                look()

    looking = threading.Thread(target=look_on, daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()


def _cpus(service: Service) -> int:
    """CPUs to tell Ray of: all that there are, and no fewer than the most replicas ask for.

    A little is added for what writes the prompts of engines (see `serve.app`).
    """
    groups = service.shard_groups if service.shard_groups > 1 else 0
    parts = (service.ingress, service.retriever, service.encoder, service.reranker,
             service.generator, *[service.group] * groups)  # fmt: skip
    return max(os.cpu_count() or 1, math.ceil(sum(p.cpus * p.max_replicas for p in parts) + 0.2))


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Maps what a replica raised when it was made to this project's errors."""
    try:
        yield
    except (RuntimeError, ray.exceptions.RayError) as error:
        told = "\n".join([str(error), *_messages()])
        own: RagClusterError | None = cluster.own_error(told)
        if own is not None:
            raise own from None
        raise ServiceError(
            f"the service could not be started: {cluster.last_line(told)} (Ray's logs are in "
            f"{LOGS})"
        ) from None


def _messages() -> list[str]:
    """What Serve says of the parts that are not healthy."""
    found = serve.status().applications.get(NAME)
    parts = [] if found is None else found.deployments.values()
    return [part.message for part in parts if part.message]
