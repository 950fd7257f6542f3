"""A real cluster of one node, as `ray start` makes it, for tests that submit to one."""

from __future__ import annotations

import contextlib
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

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Cluster:
    """A cluster's dashboard and address, and the environment of what talks to it."""

    url: str
    address: str
    environment: dict[str, str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def started_head() -> Iterator[Cluster]:
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
        yield Cluster(url, f"127.0.0.1:{port}", environment)
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
