"""The service in one process: `rag-cluster serve`, as users start it."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psutil
import pytest
from api_service import events_of
from slow_llm import SlowLLM, slow_llm
from small_corpus import FAKE

from rag_cluster import config, pipeline, versions
from serve import local

COMMAND = [str(Path(sys.executable).parent / "rag-cluster"), "serve"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(collection: Path, port: int, *settings: str) -> subprocess.Popen[str]:
    chosen = [
        part
        for setting in settings
        for part in ([setting] if setting.startswith("--") else ["--set", setting])
    ]
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
    """The url and the process, once it says that it serves; at a port that was free."""
    process = start(collection, 0, "service.poll_s=0.2")
    assert process.stderr is not None
    try:
        said = []
        for line in process.stderr:
            said.append(line)
            if "is served at" in line:
                break
        assert "starting in one process" in said[0]
        url = said[-1].split(" is served at ")[1].split()[0]
        yield url, process
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


def test_a_new_version_is_picked_up_a_broken_one_refused_and_both_are_said(
    service: tuple[str, subprocess.Popen[str]], sources: Path, collection: Path
) -> None:
    url, process = service
    (sources / "tugs.md").write_text("# Tugs\n\nTwo tugs turn the ferry.\n")
    pipeline.ingest([str(sources / "tugs.md")], collection, config.load(None, FAKE))
    until(lambda: httpx.get(f"{url}/readyz").json(), lambda told: told["version"] == "v000002")
    reply = httpx.post(f"{url}/v1/search", json={"query": "tugs and the ferry"}).json()
    assert reply["version"] == "v000002"
    assert "Two tugs" in reply["hits"][0]["text"]
    broken = collection / "versions" / "v000003"
    broken.mkdir()
    (collection / "CURRENT").write_text("v000003\n")
    until(lambda: httpx.get(f"{url}/readyz").json(), lambda told: told["status"] == "degraded")
    versions.rollback(collection, "v000002")
    until(lambda: httpx.get(f"{url}/readyz").json(), lambda told: told["status"] == "ok")
    broken.rmdir()
    process.terminate()
    assert process.stderr is not None
    said = process.stderr.read()
    assert "version v000002 is served now, before it v000001" in said
    assert said.count("version v000003 is refused") == 1
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("settings", "told"),
    [
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


def test_a_port_in_use_is_said_and_what_has_no_effect(collection: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start(
            collection, taken.getsockname()[1], "service.retriever.max_replicas=2", "--one-process"
        )
        _, said = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert "choose another with --port" in said
    assert "service.retriever.max_replicas=2 has no effect in one process" in said


def test_two_that_start_at_one_port(collection: Path) -> None:
    port = free_port()
    both = [start(collection, port) for _ in range(2)]
    try:
        until(lambda: [process.poll() for process in both], any, 90)
        (ended,) = [process for process in both if process.poll() is not None]
        _, said = ended.communicate()
        assert f"cannot listen at 127.0.0.1:{port}" in said
        assert "Traceback" not in said
        until(lambda: answers(f"http://127.0.0.1:{port}/readyz"), bool, 60)
    finally:
        for process in both:
            process.kill()
            process.wait(20)


def test_a_request_for_a_websocket_is_refused_and_does_not_outlive_the_service(
    service: tuple[str, subprocess.Popen[str]],
) -> None:
    url, process = service
    body = json.dumps({"query": "crane"}).encode()
    head = (
        "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        "Sec-WebSocket-Version: 13\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    place = httpx.URL(url)
    with socket.create_connection((place.host, place.port), 10) as client:
        client.sendall(head.encode() + body)
        assert client.recv(1000).startswith(b"HTTP/1.1 400")
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert process.wait(20) == 0


def test_what_is_said_where_descriptors_run_out(
    service: tuple[str, subprocess.Popen[str]],
) -> None:
    url, process = service
    place = httpx.URL(url)
    _, most = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    few = psutil.Process(process.pid).num_fds() + 4
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (few, most))
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(socket.create_connection((place.host, place.port), 10))
        time.sleep(3)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (most, most))
    until(lambda: answers(url), bool)
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    said = process.stderr.read()
    assert said.count("descriptors have run out") == 1
    assert "Traceback" not in said


def answers(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(url).status_code == 200
    return False


def ask(url: str, **more: object) -> httpx.Response:
    body = {"question": "What does the crane lift?"} | more
    return httpx.post(f"{url}/v1/ask", json=body, timeout=60)


def slowly(llm: SlowLLM) -> list[str]:
    return ["generate.kind=openai", "generate.model=m", f"generate.base_url={llm.url}"]


def served_here(collection: Path, *settings: str) -> AbstractContextManager[str]:
    tree = config.read_tree(None, [*settings, f"service.port={free_port()}"])
    return local.served(str(collection), tree)


def test_slow_bodies_hold_no_place_and_refusals_are_counted(collection: Path) -> None:
    few = ["service.ingress.max_ongoing_requests=1", "service.ingress.max_queued_requests=1"]
    with slow_llm() as llm, served_here(collection, *slowly(llm), *few) as url:
        host, port = url.removeprefix("http://").split(":")
        slow = [socket.create_connection((host, int(port))) for _ in range(5)]
        for connection in slow:
            connection.sendall(b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                               b"application/json\r\nContent-Length: 100\r\n\r\n{")  # fmt: skip
        found = httpx.post(f"{url}/v1/search", json={"query": "crane"})
        assert found.status_code == 200
        with ThreadPoolExecutor(3) as threads:
            asked = [threads.submit(ask, url, deadline_ms=3000) for _ in range(3)]
            replies = sorted((one.result() for one in asked), key=lambda reply: reply.status_code)
        assert [reply.status_code for reply in replies] == [503, 504, 504]
        assert replies[0].json()["error"]["code"] == "overloaded"
        assert replies[0].headers["retry-after"] == "1"
        told = httpx.get(f"{url}/metrics").text
        assert 'code="overloaded"' in told
        assert 'status="503"' in told
        for connection in slow:
            connection.close()


def test_no_more_is_asked_of_the_generator_than_of_a_replica(collection: Path) -> None:
    few = ["service.generator.max_ongoing_requests=1", "service.generator.max_queued_requests=1"]
    with (
        slow_llm() as llm,
        served_here(collection, *slowly(llm), *few) as url,
        ThreadPoolExecutor(3) as threads,
    ):
        replies = [threads.submit(ask, url, deadline_ms=3000) for _ in range(3)]
        codes = sorted(reply.result().status_code for reply in replies)
        assert httpx.post(f"{url}/v1/search", json={"query": "crane"}).status_code == 200
    assert codes == [503, 504, 504]


def test_what_is_at_work_when_the_time_is_up_is_told_so_and_logged(
    collection: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(local, "END_S", 1)
    log = tmp_path / "log"
    with slow_llm() as llm, ThreadPoolExecutor(2) as threads:
        with served_here(collection, *slowly(llm), f"service.log.folder={log}") as url:
            reply = threads.submit(ask, url)
            stream = threads.submit(ask, url, stream=True)
            assert llm.asked.wait(20)
            time.sleep(1)
        ended, streamed = reply.result(timeout=10), stream.result(timeout=10)
    assert (ended.status_code, ended.json()["error"]["code"]) == (503, "ending")
    *_, (name, told) = events_of(iter(streamed.text.split("\n")))
    assert (name, told["error"]["code"]) == ("error", "ending")
    lines = [json.loads(line) for file in log.glob("*.jsonl") for line in file.open()]
    assert [(line["status"], line["code"]) for line in lines] == [(503, "ending")] * 2
    assert "Traceback" not in caplog.text


def test_a_second_signal_ends_it_at_once(collection: Path) -> None:
    port = free_port()
    with slow_llm() as llm, ThreadPoolExecutor(1) as threads:
        process = start(collection, port, *slowly(llm))
        assert process.stderr is not None
        assert any("is served at" in line for line in process.stderr)
        threads.submit(ask, f"http://127.0.0.1:{port}")
        assert llm.asked.wait(20)
        process.send_signal(signal.SIGTERM)
        assert "ending when what is at work is done" in process.stderr.readline()
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=15)
        assert time.monotonic() - begun < 10
    assert process.returncode == 130
    assert "ended before it was done" in said
    assert "Traceback" not in said


def test_ctrl_c_ends_the_start(collection: Path) -> None:
    # In the background of a shell SIGINT is ignored, also by what the tests start there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = start(collection, free_port())
    assert process.stderr is not None
    assert "starting" in process.stderr.readline()
    assert "loading" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "ended before it was done" in said
    assert "Traceback" not in said
    assert "the same command goes on" not in said.lower()  # which is what an ingest says


def until(ask: Callable[[], Any], holds: Callable[[Any], bool], seconds: float = 30) -> Any:
    """What is told once it holds."""
    end = time.monotonic() + seconds
    while not holds(found := ask()):
        assert time.monotonic() < end, found
        time.sleep(0.1)
    return found
