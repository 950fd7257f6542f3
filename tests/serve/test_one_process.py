"""The service in one process: `rag-cluster serve --one-process`, as users start it."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import psutil
import pytest
from small_corpus import FAKE

from rag_cluster import config, pipeline
from rag_cluster.config import Replicas
from serve.local import Gate

COMMAND = [str(Path(sys.executable).parent / "rag-cluster"), "serve", "--one-process"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(collection: Path, port: int, *settings: str) -> subprocess.Popen[str]:
    chosen = [part for setting in settings for part in ("--set", setting)]
    command = [*COMMAND, "--collection", str(collection), "--port", str(port), *chosen]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one-process")
    (folder / "cranes.md").write_text("# Cranes\n\nThe harbour crane lifts forty tonnes.\n")
    return folder


@pytest.fixture(scope="module")
def collection(sources: Path, ray_session: None) -> Path:
    path = sources / "collection"
    pipeline.ingest([str(sources / "cranes.md")], path, config.load(None, FAKE))
    return path


@pytest.fixture
def service(collection: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The url and the process, once it says that it serves."""
    port = free_port()
    process = start(collection, port, "service.poll_s=0.2")
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "is served at" in line:
                break
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait(20)


def test_it_answers_without_ray_and_ends_when_told(
    service: tuple[str, subprocess.Popen[str]],
) -> None:
    url, process = service
    assert httpx.get(f"{url}/readyz").json()["status"] == "ok"
    reply = httpx.post(f"{url}/v1/ask", json={"question": "What does the crane lift?"})
    assert "forty tonnes" in reply.json()["answer"]
    assert "rag_cluster_requests_total{" in httpx.get(f"{url}/metrics").text
    names = [child.name() for child in psutil.Process(process.pid).children(recursive=True)]
    assert not [name for name in names if "ray" in name]
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()


def test_a_new_version_is_picked_up(
    service: tuple[str, subprocess.Popen[str]], sources: Path, collection: Path
) -> None:
    url, _ = service
    (sources / "tugs.md").write_text("# Tugs\n\nTwo tugs turn the ferry.\n")
    pipeline.ingest([str(sources / "tugs.md")], collection, config.load(None, FAKE))
    end = time.monotonic() + 30
    while (found := httpx.get(f"{url}/readyz").json())["version"] != "v000002":
        assert time.monotonic() < end, found
        time.sleep(0.1)
    reply = httpx.post(f"{url}/v1/search", json={"query": "tugs and the ferry"}).json()
    assert reply["version"] == "v000002"
    assert "Two tugs" in reply["hits"][0]["text"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["generate.kind=vllm", "generate.model=x"], "serve without --one-process"),
        (["embed.model=/nowhere"], "/nowhere"),
        (["service.host=0.0.0.0"], "service.keys"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_line(
    collection: Path, settings: list[str], told: str
) -> None:
    process = start(collection, free_port(), *settings)
    _, said = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert told in said
    assert "Traceback" not in said


def test_a_port_in_use_is_said(collection: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start(collection, taken.getsockname()[1])
        _, said = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert "choose another with --port" in said


class Counted:
    """An app that ends when told, and counts who is in it."""

    def __init__(self) -> None:
        self.here = 0
        self.go = asyncio.Event()

    async def __call__(self, scope: dict, receive: object, send: object) -> None:
        self.here += 1
        if scope["path"] == "/v1/search":
            await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


@pytest.mark.parametrize(("queued", "refused"), [(3, 5), (-1, 0)])
def test_more_than_work_and_wait_are_refused(queued: int, refused: int) -> None:
    async def run() -> tuple[int, list[int], int]:
        app = Counted()
        gate = Gate(app, Replicas(max_ongoing_requests=2, max_queued_requests=queued))
        replies: list[dict] = []

        async def send(message: dict) -> None:
            replies.append(message)

        async def ask(path: str) -> None:
            await gate({"type": "http", "path": path}, None, send)

        tasks = [asyncio.create_task(ask("/v1/search")) for _ in range(10)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        at_work = app.here
        await ask("/readyz")
        app.go.set()
        await asyncio.gather(*tasks)
        starts = [one for one in replies if one["type"] == "http.response.start"]
        for one in starts:
            if one["status"] == 503:
                assert (b"retry-after", b"1") in one["headers"]
        return at_work, [one["status"] for one in starts], app.here

    at_work, statuses, reached = asyncio.run(run())
    assert at_work == 2
    assert statuses.count(503) == refused
    assert statuses.count(200) == reached == 11 - refused
