"""The service for tests of its page: a collection with a PDF, and parts that can be held up."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymupdf
import uvicorn
from small_corpus import FAKE

from rag_cluster import config, pipeline
from rag_cluster.answer.generate import Draft
from rag_cluster.answer.sources import Source
from rag_cluster.config import read_tree
from serve.api import create_app
from serve.api.errors import overloaded
from serve.api.service import Service
from serve.backend import Backend, in_process
from serve.keys import Keys
from serve.options import Options
from serve.retriever import Answered, Retriever

FIELDS = "metadata.fields={year: int, product: keyword, approved: bool, issued: date}"
HOSTILE = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"

# Flowers are two units each of a JavaScript string: what is marked must not slip by them.
GARDEN = (
    "# Garden 🌷🌷🌷🌷🌷🌷🌷🌷\n\n## Opening\n\n"
    + " ".join(f"Path {number} 🌷 is swept on day {number}." for number in range(60))
    + "\n\n## Roses\n\nThe rose house opens at seven in the morning.\n\n## Pond\n\n"
    + " ".join(f"Carp number {number} was born in spring." for number in range(60))
)


def write_files(folder: Path) -> None:
    """A text, a PDF of three pages, and records with metadata."""
    folder.mkdir(parents=True)
    (folder / "garden.md").write_text(GARDEN, "utf-8")
    with pymupdf.open() as document:
        for text in (
            "The mast carries the wind sensor and its cable.",
            "The mast must stand ten metres away from every obstacle.",
            "The gauge is emptied each morning before eight.",
        ):
            page = document.new_page(width=420, height=595)
            page.insert_textbox(pymupdf.Rect(40, 60, 380, 500), text, fontsize=14)
        document.set_metadata({"title": "Station handbook"})
        document.save(folder / "handbook.pdf")
    rows = [
        ("hostile", HOSTILE, "A hostile title hides in this harmless record.", 2019, "pump"),
        ("pump", "Pump list", "The pump costs ninety euros and lasts ten years.", 2021, "pump"),
        ("valve", "Valve list", "The valve costs forty euros and lasts five years.", 2024, "valve"),
    ]
    records = [
        {"_id": name, "title": title, "text": text, "year": year, "product": product,
         "approved": title != HOSTILE, "issued": f"{year}-05-01"}
        for name, title, text, year, product in rows
    ]  # fmt: skip
    (folder / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))


def ingested(folder: Path, path: Path) -> Path:
    """A collection of a folder's files."""
    pipeline.ingest([str(folder)], path, config.load(None, [*FAKE, FIELDS, "chunk.size=100"]))
    return path


class Paused:
    """`Writes` whose draft comes in two pieces, the second one when `go_on` is set."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.go_on = threading.Event()
        self.stopped = threading.Event()

    async def generate(self, question: str, sources: Sequence[Source], options: Options) -> Draft:
        return await self._inner.generate(question, sources, options)

    async def stream(
        self, question: str, sources: Sequence[Source], options: Options
    ) -> AsyncIterator[str]:
        whole = (await self.generate(question, sources, options)).text
        half = len(whole) // 2
        yield whole[:half]
        try:
            await asyncio.to_thread(self.go_on.wait)
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        yield whole[half:]


class Busy(Retriever):
    """A retriever that has too much to do, as long as `busy` is set."""

    def __init__(self, inner: Retriever) -> None:
        super().__init__(inner._published)
        self.busy = threading.Event()

    async def search(self, query: str, options: Options) -> Answered:
        if self.busy.is_set():
            raise overloaded("the retriever")
        return await super().search(query, options)


class Running:
    """A service that is up at `url`. `paused` holds answers up, `busy` refuses searches."""

    url: str
    paused: Paused
    busy: Busy

    def held(self, backend: Backend) -> Backend:
        self.paused, self.busy = Paused(backend.writes), Busy(backend.retriever)
        self.paused.go_on.set()
        return replace(backend, writes=self.paused, retriever=self.busy)


@contextlib.contextmanager
def running(collection: Path, *settings: str) -> Iterator[Running]:
    """The service over a collection, on a free port of this machine, in a thread."""
    found = Running()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        found.url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        server = uvicorn.Server(uvicorn.Config("", log_level="error", timeout_graceful_shutdown=2))
        up = threading.Event()

        async def serve() -> None:
            backend, _ = await in_process(collection, read_tree(None, settings))
            source = backend.config.service.keys
            keys = None if source is None else Keys.read(source)
            server.config.app = create_app(Service(found.held(backend), keys))
            up.set()
            await server.serve([listening])

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        try:
            assert up.wait(60), "the service did not come up"
            yield found
        finally:
            server.should_exit = True
            thread.join(30)
