"""The API in one process over one opened collection, without Ray: for tests and comparison."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from rag_cluster.config import read_tree
from serve.api import create_app
from serve.api.service import Service
from serve.backend import in_process
from serve.keys import keys_of
from serve.metrics import LocalMeters
from serve.observe import Observer


async def app_of(
    collection: str | Path, config: Path | None = None, settings: Sequence[str] = ()
) -> FastAPI:
    """The application. Raises ConfigError, CollectionError, ModelError."""
    backend = await in_process(collection, read_tree(config, settings))
    keys = keys_of(backend.config)
    return create_app(Service(backend, keys, Observer.of(backend.config, LocalMeters())))


async def serve(
    collection: str | Path, config: Path | None = None, settings: Sequence[str] = ()
) -> None:
    """Answers requests until it is stopped."""
    app = await app_of(collection, config, settings)
    service = app.state.service.config.service
    options = uvicorn.Config(app, host=service.host, port=service.port, log_level=service.log_level)
    try:
        await uvicorn.Server(options).serve()
    finally:
        app.state.service.observer.close()


def main(collection: str, settings: Sequence[str]) -> None:
    """What `python -m serve.local COLLECTION key=value ...` runs."""
    asyncio.run(serve(collection, None, settings))


if __name__ == "__main__":
    import sys

    main(sys.argv[1], sys.argv[2:])
