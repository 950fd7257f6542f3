from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hostile
import pytest

from rag_cluster.parse.isolate import Isolated
from rag_cluster.parse.parsed import ParseError


@pytest.fixture
def isolated() -> Iterator[Isolated]:
    isolated = Isolated(timeout_s=20, memory_mb=256)
    yield isolated
    isolated.close()


def test_one_child_takes_all_calls(isolated: Isolated) -> None:
    assert isolated.pid is None
    assert isolated.call(hostile.add, 1, 2) == 3
    pids = {isolated.call(hostile.own_pid) for _ in range(3)}
    assert pids == {isolated.pid}
    assert pids != {os.getpid()}


def test_large_messages_go_both_ways(isolated: Isolated) -> None:
    data = os.urandom(3_000_000)
    assert isolated.call(hostile.echo, data) == data


def test_what_a_library_prints_does_not_disturb(isolated: Isolated) -> None:
    assert isolated.call(hostile.print_much) == "done"
    assert isolated.call(hostile.add, 1, 1) == 2


@pytest.mark.parametrize(
    ("function", "reason", "detail"),
    [
        (hostile.segfault, "parser crashed", "signal SIGSEGV"),
        (hostile.leave, "parser crashed", "exit code 3"),
        (hostile.be_killed, "out of memory", "-9"),  # as the kernel does when memory is short
        (hostile.eat_memory, "out of memory", None),
        (hostile.refuse, "damaged", "by purpose"),
        (hostile.fail, "parser error", "LookupError: a library's own error"),
        (hostile.give_what_cannot_be_sent, "parser error", "pickle"),
    ],
)
def test_a_failure_has_its_reason_and_the_next_call_works(
    isolated: Isolated, function: Callable[[], Any], reason: str, detail: str | None
) -> None:
    with pytest.raises(ParseError) as caught:
        isolated.call(function)
    assert caught.value.reason == reason
    assert detail is None or detail in str(caught.value.detail)
    assert isolated.call(hostile.add, 2, 2) == 4


@pytest.mark.parametrize("function", [hostile.hang, hostile.spin_in_c])
def test_a_hang_ends_at_the_time_limit(function: Callable[[], None]) -> None:
    isolated = Isolated(timeout_s=1.0, memory_mb=256)
    isolated.call(hostile.add, 0, 0)
    pid = isolated.pid
    begun = time.monotonic()
    with pytest.raises(ParseError, match="timed out: took more than 1 s"):
        isolated.call(function)
    assert time.monotonic() - begun < 5
    assert pid is not None
    assert not _exists(pid)
    isolated.close()


def test_a_child_that_was_killed_between_calls_is_replaced(isolated: Isolated) -> None:
    pid = isolated.call(hostile.own_pid)
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.1)
    assert isolated.call(hostile.own_pid) != pid


def test_dropping_it_ends_the_child() -> None:
    isolated = Isolated(timeout_s=20, memory_mb=256)
    pid = isolated.call(hostile.own_pid)
    del isolated
    assert not _exists(pid)


def test_the_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import hostile\n"
        "from rag_cluster.parse.isolate import Isolated\n"
        "isolated = Isolated(600, 256)\n"
        "print(isolated.call(hostile.own_pid), flush=True)\n"
        "isolated.call(hostile.hang)\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        try:
            pid = int(parent.stdout.readline())
            assert _exists(pid)
        finally:
            parent.kill()
    deadline = time.monotonic() + 10
    while _exists(pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _exists(pid)


def test_the_child_is_light() -> None:
    code = "import sys, rag_cluster.parse.stage, rag_cluster.parse.formats; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not {"ray", "torch", "pandas", "faiss"} & set(loaded.stdout.split())


def _exists(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
