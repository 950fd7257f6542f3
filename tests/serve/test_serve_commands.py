"""`serve deploy` and `serve run` on a cluster of its own, as docs/service.md shows them."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
import yaml
from api_service import events_of
from ray_head import BIN, Cluster, free_port
from slow_llm import SlowLLM, slow_llm

CONFIG = Path(__file__).parents[2] / "serve" / "config.yaml"
QUESTION = "When do tulips bloom?"


@pytest.fixture(scope="module")
def llm() -> Iterator[SlowLLM]:
    with slow_llm() as found:
        yield found


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


def serve_command(head: Cluster, *arguments: str) -> str:
    done = subprocess.run(
        [BIN / "serve", *arguments, "--address", head.url], env=head.environment,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def deploy(head: Cluster, folder: Path, port: int, args: dict[str, Any] | None) -> None:
    """The repository's file with other arguments; without any, nothing is served any more."""
    tree = yaml.safe_load(CONFIG.read_text("utf-8"))
    tree["http_options"]["port"] = port
    tree["applications"][0]["args"] = args
    if args is None:
        tree["applications"] = []
    file = folder / "deployed.yaml"
    file.write_text(yaml.safe_dump(tree), "utf-8")
    serve_command(head, "deploy", str(file))


def wait_for(url: str, status: int | None, seconds: float = 180) -> None:
    """Waits for a reply with this status; None is for nobody who listens."""
    end = time.monotonic() + seconds
    found: int | None = None
    while time.monotonic() < end:
        try:
            found = httpx.get(f"{url}/readyz", timeout=10).status_code
        except httpx.TransportError:
            found = None
        if found == status:
            return
        time.sleep(0.3)
    raise AssertionError(f"{found} and not {status}")


@pytest.fixture(scope="module")
def deployed(
    head: Cluster, collection: Path, llm: SlowLLM, port: int, tmp_path_factory: Any
) -> Iterator[str]:
    """The url of what `serve deploy` has deployed; its proxy listens at every address."""
    folder = tmp_path_factory.mktemp("deployed")
    args = {
        "collection": str(collection), "generate.kind": "openai", "generate.model": "m",
        "generate.base_url": llm.url,
    }  # fmt: skip
    deploy(head, folder, port, args)
    url = f"http://127.0.0.1:{port}"
    wait_for(url, 200)
    yield url
    deploy(head, folder, port, None)
    wait_for(url, 404)


def test_what_is_deployed_answers(deployed: str, head: Cluster) -> None:
    reply = httpx.post(f"{deployed}/v1/search", json={"query": "tulips in May"}, timeout=30)
    assert reply.status_code == 200
    assert "Tulips bloom in May" in reply.json()["hits"][0]["text"]
    [told] = yaml.safe_load(serve_command(head, "status"))["applications"].values()
    assert told["status"] == "RUNNING"
    assert set(told["deployments"]) == {
        "Ingress", "Retriever", "Encoder", "Reranker", "Generator",
    }  # fmt: skip


def test_a_client_that_leaves_stops_the_language_model(deployed: str, llm: SlowLLM) -> None:
    """Over the proxy, the ingress and the generator, each in a process of its own."""
    body = {"question": QUESTION, "stream": True}
    with httpx.stream("POST", f"{deployed}/v1/ask", json=body, timeout=30) as reply:
        names = []
        for name, _ in events_of(reply.iter_lines()):
            names.append(name)
            if name == "token":
                break
        assert names[0] == "hits"
        assert not llm.left.is_set()
    assert llm.left.wait(10)


def test_other_machines_need_a_key(deployed: str) -> None:
    """The proxy listens at every address, whatever service.host says: no key, no answer."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("the machine has no address but loopback")
        host = probe.getsockname()[0]
    url = deployed.replace("127.0.0.1", host)
    reply = httpx.post(f"{url}/v1/search", json={"query": "tulips"}, timeout=30)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "no_keys")


def test_serve_run(deployed: str, head: Cluster, collection: Path, tmp_path: Path) -> None:
    """With another configuration, and the extractive generator; Ctrl-C ends it."""
    # In the background of a shell SIGINT is ignored, also by what the tests start there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    deploy(head, tmp_path, int(deployed.rpartition(":")[2]), None)
    wait_for(deployed, 404)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [BIN / "serve", "run", "serve.app:build", f"collection={collection}",
             "retrieve.top_k=3", "--address", head.address],
            env=head.environment, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            wait_for(deployed, 200)
            reply = httpx.post(f"{deployed}/v1/ask", json={"question": QUESTION}, timeout=30)
            found = reply.json()
            assert reply.status_code == 200, found
            assert found["answer"]
            assert len(found["hits"]) == 3
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    wait_for(deployed, None)
