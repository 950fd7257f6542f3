"""The API over parts that answer at once, under a real server: for what is kept of requests."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI

from rag_cluster import config
from rag_cluster.answer.assemble import assemble
from rag_cluster.answer.found import Place, SearchResult
from rag_cluster.answer.generate import Draft
from rag_cluster.answer.writing import Grounds
from rag_cluster.config import Config
from rag_cluster.errors import ServiceError
from rag_cluster.schema import Passage
from serve.api import create_app
from serve.api.service import Service
from serve.backend import Backend
from serve.keys import Keys
from serve.metrics import LocalMeters
from serve.observe import Observer
from serve.options import Options
from serve.retriever import Answered, Grounded

TEXTS = ("The mast stands ten metres from the hedge.", "The pump is switched off first.")
TIMINGS = {"filter": 1.0, "encode": 4.0, "dense": 2.0, "bm25": 3.0, "fuse": 1.0, "total": 11.0}


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def passage(rank: int, text: str) -> Passage:
    return Passage(
        rank=rank, score=1 / rank, chunk_id=f"c{rank}", doc_id=f"d{rank}",
        uri=f"/docs/manual-{rank}.pdf", title="Manual", pages=(rank, rank), section="",
        kind="section", parent_id=None, ordinal=0, start=0, end=len(text), header="", text=text,
    )  # fmt: skip


class Retrieving:
    """Finds two passages; nothing, a failure or no end for questions that say so."""

    async def search(self, query: str, options: Options) -> Answered:
        if "fail" in query:
            raise ServiceError("the index is away")
        if "forever" in query:
            await asyncio.sleep(60)
        texts = () if "nothing" in query else TEXTS
        hits = [passage(rank, text) for rank, text in enumerate(texts, 1)]
        places = [{"dense": Place(hit.rank, hit.score)} for hit in hits]
        cached = {} if options.where is None else {"filter": True}
        return Answered(
            "v000007",
            SearchResult(query, hits, dict(TIMINGS), by_channel=places, cached=cached),
        )

    async def ground(self, question: str, options: Options) -> Grounded:
        found = (await self.search(question, options)).found
        assembly = assemble(found.hits, budget_tokens=500, count_tokens=words)
        return Grounded("v000007", Grounds(found, assembly, {}, {}, "english"))

    async def status(self) -> dict[str, Any]:
        return {"version": "v000007", "refused": None}

    async def document(self, doc_id: str, *_: Any) -> dict[str, Any] | None:
        return None


class Writes:
    """Cites the first source. With "broken" in the question it ends in the middle."""

    async def generate(self, question: str, sources: Sequence[Any], options: Options) -> Draft:
        return Draft(f"{TEXTS[0]} [1]" if sources else "Nothing was found.", 21, 9)

    async def stream(
        self, question: str, sources: Sequence[Any], options: Options
    ) -> AsyncIterator[str]:
        yield "The mast stands "
        if "broken" in question:
            raise ServiceError("the model is away")
        yield "ten metres from the hedge. [1]"


class Encodes:
    async def encode(self, texts: Sequence[str], kind: str = "query") -> Any:
        return np.ones((len(texts), 4), np.float32)

    async def describe(self) -> tuple[int, str]:
        return 4, "none"

    async def tokens(self, texts: Sequence[str], kind: str = "query") -> tuple[list[int], int]:
        return words(texts), 256

    async def late_interaction(self, query: str, texts: Sequence[str]) -> Any:
        return np.arange(len(texts), dtype=np.float32)


def settled(*settings: str) -> Config:
    return config.load(None, list(settings))


def app_with(made: Config, keys: Keys | None = None, observer: Observer | None = None) -> FastAPI:
    observer = observer or Observer.of(made, LocalMeters(), "replica")
    encodes: Any = Encodes()
    backend = Backend(made, Retrieving(), encodes, encodes, Writes())  # type: ignore[arg-type]
    return create_app(Service(backend, keys, observer))


@contextlib.contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """The base url of the app, while it is served on a free port."""
    taken = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        taken.close()
        app.state.service.observer.close()
