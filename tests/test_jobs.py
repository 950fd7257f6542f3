"""`ray job submit` against a real cluster of its own: what the README shows, with small inputs."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from small_corpus import FAKE

from rag_cluster.storage import Collection

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
SETTINGS = [word for setting in FAKE for word in ("--set", setting)]


@dataclass(frozen=True)
class Cluster:
    """A cluster's dashboard, and the environment of what talks to it."""

    url: str
    environment: dict[str, str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def head() -> Iterator[Cluster]:
    """`ray start --head` in a process group of its own, with a token of its own."""
    temporary = Path(tempfile.mkdtemp(prefix="ray-"))  # short: it holds sockets
    foreign = ("RAY_ADDRESS", "RAY_JOB_SUBMISSION_ID", "RAY_BACKEND_LOG_LEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in foreign}
    environment |= {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "0123456789abcdef0123456789abcdef",
        "PATH": f"{BIN}:{os.environ['PATH']}",
    }
    port, dashboard = free_port(), free_port()
    with (temporary / "head.log").open("wb") as log:
        process = subprocess.Popen(
            [
                BIN / "ray", "start", "--head", "--block", "--num-cpus=2", f"--port={port}",
                f"--dashboard-port={dashboard}", f"--dashboard-agent-listen-port={free_port()}",
                f"--ray-client-server-port={free_port()}", f"--temp-dir={temporary}/t",
                "--disable-usage-stats",
            ],
            env=environment, stdout=log, stderr=log, start_new_session=True, cwd=temporary,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{dashboard}"
        wait_for(url, environment["RAY_AUTH_TOKEN"], process)
        yield Cluster(url, environment)
    finally:
        end(process)
        shutil.rmtree(temporary, ignore_errors=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends the head and what it started, and no other cluster of this machine."""
    started = descendants(process.pid)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
    process.kill()
    process.wait()
    for child in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def descendants(parent: int) -> list[int]:
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    parents = dict(map(int, line.split()) for line in listed.stdout.splitlines())
    found = [parent]
    for above in found:
        found += [child for child, its in parents.items() if its == above]
    return found[1:]


def wait_for(url: str, token: str, process: subprocess.Popen[bytes]) -> None:
    request = urllib.request.Request(
        f"{url}/api/jobs/", headers={"Authorization": f"Bearer {token}"}
    )
    for _ in range(240):
        assert process.poll() is None, "the head ended"
        try:
            with urllib.request.urlopen(request, timeout=5) as reply:
                if reply.status == 200:
                    return
        except OSError:
            time.sleep(0.5)
    pytest.fail("the dashboard does not answer")


def submit(head: Cluster, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            BIN / "ray", "job", "submit", "--address", head.url, "--working-dir", ".",
            "--", "python", "-m", module, *arguments,
        ],
        cwd=ROOT, env=head.environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def run_here(head: Cluster, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT, env=head.environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def last_object(text: str) -> dict[str, object]:
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[-1])


def test_an_ingest_is_submitted_and_measured(head: Cluster, corpus: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "c")
    done = submit(
        head, "jobs.ingest", str(corpus), "--collection", path, "--json", *SETTINGS,
        "--set", "resources.encoders=1",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = last_object(done.stdout)
    assert summary["version"] == "v000001"
    assert summary["documents"] == {"ok": 23, "empty": 0, "failed": 1}
    assert Collection.open(path).manifest["chunks"] == summary["chunks"]
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "when do roses bloom"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\tgarden.txt\t1\n")
    done = run_here(
        head, "jobs.evaluate", "--collection", path, "--queries", str(tmp_path / "queries.jsonl"),
        "--qrels", str(tmp_path / "qrels.tsv"), "--metrics", "Success@1", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert last_object(done.stdout)["metrics"] == {"Success@1": 1.0}


def test_a_job_ends_as_its_command_does(head: Cluster, tmp_path: Path) -> None:
    done = run_here(head, "jobs.ingest", str(tmp_path / "no"), "--collection", str(tmp_path / "c"))
    assert done.returncode == 2
    assert done.stderr.startswith("rag-cluster: ")
    assert len(done.stderr.splitlines()) == 1
