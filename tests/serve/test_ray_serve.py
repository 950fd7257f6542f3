"""The service on Ray Serve, as `rag-cluster serve --ray` starts it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx2 as httpx
import psutil
import pytest
from small_corpus import FAKE

REPLICA = "ray::ServeReplica:rag-cluster:"


class Served(NamedTuple):
    """A running service: its url, its collection, and the process of the command."""

    url: str
    collection: Path
    process: subprocess.Popen[str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: Callable[[], Any], seconds: float = 60) -> Any:
    """The first true answer; fails after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := what():
                return found
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise AssertionError(f"nothing within {seconds} s")


def start(collection: Path, port: int, *settings: str) -> subprocess.Popen[str]:
    chosen = [part for setting in settings for part in ("--set", setting)]
    return subprocess.Popen(
        [
            str(Path(sys.executable).parent / "rag-cluster"), "serve", "--ray",
            "--collection", str(collection), "--port", str(port), *chosen,
        ],
        stderr=subprocess.PIPE, text=True, env=os.environ | {"RAY_ADDRESS": ""},
    )  # fmt: skip


@pytest.fixture(scope="module")
def served(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("served") / "collection"
    shutil.copytree(collection, path)
    port = free_port()
    two = ["service.retriever.min_replicas=2", "service.retriever.max_replicas=2"]
    process = start(path, port, "service.poll_s=0.5", *two)
    url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        assert process.poll() is None, process.stderr and process.stderr.read()
        return httpx.get(f"{url}/readyz").status_code == 200

    try:
        wait_for(ready, 180)
        yield Served(url, path, process)
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(60)
    assert code == 0


def search(url: str, query: str = "the pump", **options: Any) -> dict[str, Any]:
    reply = httpx.post(f"{url}/v1/search", json={"query": query, **options}, timeout=30)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def replicas(name: str) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if " ".join(process.info["cmdline"] or ()).startswith(f"{REPLICA}{name}")
    ]


def test_searches_answers_and_streams(served: Served) -> None:
    found = search(served.url, "when do tulips bloom", top_k=2)
    assert len(found["hits"]) == 2
    assert found["version"] == "v000001"
    assert "Tulips bloom in May" in found["hits"][0]["text"]
    body = {"question": "When do tulips bloom?", "stream": True}
    with httpx.stream("POST", f"{served.url}/v1/ask", json=body, timeout=30) as reply:
        lines = [line for line in reply.iter_lines() if line.startswith("event:")]
    assert lines[0] == "event: hits"
    assert lines[-1] == "event: answer"
    reply = httpx.post(f"{served.url}/v1/embeddings", json={"input": ["a", "b"]}, timeout=30)
    assert [len(row["embedding"]) for row in reply.json()["data"]] == [64, 64]
    texts = ["a lid", "the pump is off"]
    body = {"query": "the pump", "documents": texts}
    reply = httpx.post(f"{served.url}/v1/rerank", json=body, timeout=30)
    assert reply.json()["results"][0]["index"] == 1


def test_an_error_in_a_replica_has_the_one_shape(served: Served) -> None:
    body = {"query": "x", "filter": {"nothing": 1}}
    reply = httpx.post(f"{served.url}/v1/search", json=body, timeout=30)
    assert reply.status_code == 400
    assert "nothing" in reply.json()["error"]["message"]


class Clients:
    """Clients that search all the time; `failed` has what went wrong."""

    def __init__(self, url: str, number: int = 8) -> None:
        self.failed: list[str] = []
        self.versions: set[str] = set()
        self.done = 0
        self._url, self._number = url, number
        self._stop = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()))

    async def _all(self) -> None:
        async with httpx.AsyncClient(base_url=self._url, timeout=30) as client:
            await asyncio.gather(*(self._one(client) for _ in range(self._number)))

    async def _one(self, client: httpx.AsyncClient) -> None:
        while not self._stop.is_set():
            try:
                reply = await client.post("/v1/search", json={"query": "the pump"})
            except httpx.HTTPError as error:
                self.failed.append(repr(error))
                continue
            if reply.status_code == 200:
                self.done += 1
                self.versions.add(reply.json()["version"])
            else:
                self.failed.append(reply.text)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def publish(served: Served, text: str) -> None:
    """A new version, by the command line."""
    source = served.collection.parent / "more"
    source.mkdir(exist_ok=True)
    (source / "news.txt").write_text(text)
    settings = [part for setting in FAKE for part in ("--set", setting)]
    command = [str(Path(sys.executable).parent / "rag-cluster"), "ingest", str(source)]
    subprocess.run(
        [*command, "--collection", str(served.collection), *settings], check=True, timeout=240,
        capture_output=True, env=os.environ | {"RAY_ADDRESS": ""},
    )  # fmt: skip


def make_current(collection: Path, version: str) -> None:
    """At once, as publishing does it."""
    (collection / "CURRENT.new").write_text(version)
    (collection / "CURRENT.new").replace(collection / "CURRENT")


def test_a_new_version_is_taken_without_a_failed_request(served: Served) -> None:
    with Clients(served.url) as clients:
        publish(served, "The news of today: a comet was seen.")
        wait_for(lambda: clients.versions == {"v000001", "v000002"}, 60)
        clients.versions.clear()
        wait_for(lambda: clients.versions == {"v000002"}, 60)
    assert not clients.failed
    assert clients.done > 20
    assert "a comet was seen" in search(served.url, "the comet in the news")["hits"][0]["text"]


def test_a_broken_version_is_refused_and_the_old_one_goes_on(served: Served) -> None:
    versions = served.collection / "versions"
    before = (served.collection / "CURRENT").read_text()
    shutil.copytree(versions / "v000002", versions / "v000003")
    dense = next((versions / "v000003" / "dense").iterdir())
    dense.write_bytes(dense.read_bytes()[:-100])
    make_current(served.collection, "v000003")

    def refused() -> Any:
        return httpx.get(f"{served.url}/readyz").json()["refused"]

    try:
        found = wait_for(refused, 30)
        assert found["version"] == "v000003"
        assert "bytes" in found["reason"]
        assert httpx.get(f"{served.url}/readyz").json()["status"] == "degraded"
        assert search(served.url)["version"] == "v000002"
    finally:
        make_current(served.collection, before)
        shutil.rmtree(versions / "v000003")
    wait_for(lambda: httpx.get(f"{served.url}/readyz").json()["status"] == "ok", 30)


def test_a_killed_retriever_comes_back(served: Served) -> None:
    before = {process.pid for process in replicas("Retriever")}
    assert len(before) == 2
    victim = min(before)
    with Clients(served.url, 4) as clients:
        wait_for(lambda: clients.done > 10)
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: len({p.pid for p in replicas("Retriever")} - {victim}) == 2, 60)
        done = clients.done
        wait_for(lambda: clients.done > done + 10)
    assert len(clients.failed) <= 4  # at most what was at work in it


def test_a_port_in_use_is_said(served: Served) -> None:
    port = int(served.url.rpartition(":")[2])
    process = start(served.collection, port)
    assert process.stderr is not None
    told = process.stderr.read()
    assert process.wait(60) == 2
    assert f"cannot listen at 127.0.0.1:{port}" in told
    assert "Traceback" not in told
