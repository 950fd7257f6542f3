"""Answering over HTTP: `serve`."""

from __future__ import annotations

from typing import Annotated

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
    config: ConfigOption = None,
    settings: SetOption = None,
) -> None:
    """Serve a collection over HTTP on this machine, with a page at /; Ctrl-C ends it."""
    import os

    # Read by Ray Serve when it is imported, here and in the replicas: fewer threads and hops on the
    # way of a request. Requests still come through the proxy, which listens at the port.
    os.environ.setdefault("RAY_SERVE_THROUGHPUT_OPTIMIZED", "1")
    os.environ.setdefault("RAY_SERVE_ENABLE_DIRECT_INGRESS", "0")

    from rag_cluster.config import read_tree
    from serve.machine import served, wait_for_signal

    given = {"host": host, "port": port, "keys": keys}
    extra = [f"service.{name}={value}" for name, value in given.items() if value is not None]
    tree = read_tree(config, [*(settings or []), *extra])
    typer.echo("rag-cluster: starting", err=True)
    with served(collection, tree, lambda line: typer.echo(f"rag-cluster: {line}", err=True)) as url:
        typer.echo(f"rag-cluster: {collection} is served at {url} (Ctrl-C ends it)", err=True)
        wait_for_signal()
        typer.echo("rag-cluster: ending", err=True)
