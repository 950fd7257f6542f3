"""Answering over HTTP: `serve`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Annotated, Any

import typer

from rag_cluster.cli.app import app
from rag_cluster.cli.options import CollectionOption, ConfigOption, SetOption


@app.command()
def serve(
    collection: CollectionOption,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen at.")] = None,
    port: Annotated[int | None, typer.Option("--port", help="Port to listen at.")] = None,
    keys: Annotated[
        str | None, typer.Option("--keys", help="File of API keys, or env:NAME.")
    ] = None,
    on_ray: Annotated[
        bool | None,
        typer.Option(
            "--ray/--one-process",
            help="On Ray, with replicas; or without it, up sooner, in less memory. By default what "
            "the configuration asks for: Ray where it has more than one replica of each part.",
        ),
    ] = None,
    config: ConfigOption = None,
    settings: SetOption = None,
) -> None:
    """Serve a collection over HTTP on this machine, with a page at /; Ctrl-C ends it."""
    from rag_cluster.config import read_tree
    from serve.backend import service_config
    from serve.listening import wait_for_signal
    from serve.where import scaled, why_on_ray

    given = {"host": host, "port": port, "keys": keys}
    extra = [f"service.{name}={value}" for name, value in given.items() if value is not None]
    tree = read_tree(config, [*(settings or []), *extra])
    try:
        chosen = service_config(collection, tree)
        _log_to_stderr(chosen.service.log_level)
        reason = why_on_ray(chosen, wanted=on_ray)
        _tell("starting in one process" if reason is None else f"starting on Ray ({reason})")
        if reason is None and (setting := scaled(chosen)):
            _tell(f"{setting} has no effect in one process")
        with (_in_one_process if reason is None else _on_ray)(collection, tree) as url:
            _tell(f"{collection} is served at {url} (Ctrl-C ends it)")
            wait_for_signal()
            _tell("ending when what is at work is done, or in 20 s (Ctrl-C ends it now)")
    except KeyboardInterrupt:
        _tell("ended before it was done")
        _leave(130)
    _leave(0)


def _on_ray(collection: str, tree: dict[str, Any]) -> AbstractContextManager[str]:
    import os

    # Read by Ray Serve when it is imported, here and in the replicas: fewer threads and hops on the
    # way of a request. Requests still come through the proxy, which listens at the port.
    os.environ.setdefault("RAY_SERVE_THROUGHPUT_OPTIMIZED", "1")
    os.environ.setdefault("RAY_SERVE_ENABLE_DIRECT_INGRESS", "0")

    from serve.machine import served

    return served(collection, tree, _tell)


def _in_one_process(collection: str, tree: dict[str, Any]) -> AbstractContextManager[str]:
    from serve.local import served

    return served(collection, tree, _tell)


def _leave(code: int) -> None:
    """Ends the process at once: a model that computes in a thread would be waited for."""
    import os
    import sys

    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _log_to_stderr(level: str) -> None:
    """What the service logs while it runs looks like what this command says, with the time."""
    import logging

    shown = logging.StreamHandler()
    shown.setFormatter(logging.Formatter("rag-cluster: %(asctime)s %(message)s", "%F %T"))
    for name in ("serve", "rag_cluster"):
        logging.getLogger(name).addHandler(shown)
        logging.getLogger(name).setLevel(level.upper())
        logging.getLogger(name).propagate = False


def _tell(line: str) -> None:
    typer.echo(f"rag-cluster: {line}", err=True)
