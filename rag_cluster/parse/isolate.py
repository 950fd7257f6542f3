"""Work in a child process that may crash, hang or eat memory without harm to this one.

One child lives as long as its `Isolated` and takes one call after another over two pipes, so the
price of a call is that of two messages. It is killed, and another is started, when it crashes,
runs past the time limit or past the memory limit. The child imports what the called function needs
and nothing else.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from typing import IO, Any, NamedTuple, TypeVar

from rag_cluster.parse.parsed import ParseError

Result = TypeVar("Result")

TIMED_OUT = "timed out"
OUT_OF_MEMORY = "out of memory"
CRASHED = "parser crashed"

_LENGTH = struct.Struct("<Q")
_START_LIMIT_S = 120.0
_GRACE_S = 5.0
_MIB = 1024 * 1024
_CHILD = "from rag_cluster.parse.isolate import serve; serve()"


class Isolated:
    """Calls functions in a child process with limits. Used by one thread at a time.

    `timeout_s` is per call. `memory_mb` (MiB) is the address space that the child may take beside
    what the interpreter itself has mapped.
    """

    def __init__(self, timeout_s: float, memory_mb: int) -> None:
        self._timeout_s = timeout_s
        self._memory_mb = memory_mb
        self._child: _Child | None = None

    def call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The function's result; it and its arguments and result must be picklable.

        Raises ParseError with the reason "timed out", "out of memory" or "parser crashed", or the
        ParseError that the function raised; any other exception of the function becomes a
        ParseError with the reason "parser error" and its type and message as detail.
        """
        child = self._ready_child()
        try:
            outcome, value = child.ask((function, arguments), self._timeout_s)
        except TimeoutError:
            detail = f"took more than {self._timeout_s:g} s"
            self.close()
            raise ParseError(TIMED_OUT, detail) from None
        except (EOFError, OSError):
            raise child.autopsy() from None
        except BaseException:
            self.close()  # an interrupted call leaves a reply in the pipe
            raise
        finally:
            if not child.alive():
                self.close()
        if outcome == "failed":
            raise ParseError(*value)
        result: Result = value
        return result

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is none."""
        return None if self._child is None else self._child.pid

    def close(self) -> None:
        """End the child. The next call starts another."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _ready_child(self) -> _Child:
        if self._child is not None and not self._child.alive():
            self.close()
        if self._child is None:
            self._child = _Child(self._timeout_s, self._memory_mb)
        return self._child


class _Child:
    """The process, its pipes, and what it wrote to its standard error."""

    def __init__(self, timeout_s: float, memory_mb: int) -> None:
        self._errors = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - lives as long as the child
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        # Each thread's arena of glibc would take 64 MiB of the address space that is limited.
        environment.setdefault("MALLOC_ARENA_MAX", "2")
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            bufsize=0,
        )
        self.pid = self._process.pid
        # Runs when this object is dropped and at the interpreter's exit.
        self.end = weakref.finalize(self, _end, self._process, self._errors)
        try:
            self.ask((timeout_s, memory_mb), _START_LIMIT_S)
        except (EOFError, OSError):
            error = self.autopsy()
            self.end()
            raise RuntimeError(f"the parser process did not start: {error}") from None

    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, message: Any, timeout_s: float) -> tuple[str, Any]:
        """The reply. Raises TimeoutError, or EOFError or OSError where the child has gone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._errors.truncate(0)
        data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        _write(self._process.stdin, data)
        deadline = time.monotonic() + timeout_s
        descriptor = self._process.stdout.fileno()
        size = _LENGTH.unpack(_read(descriptor, _LENGTH.size, deadline))[0]
        outcome, value, leaving = pickle.loads(_read(descriptor, size, deadline))  # noqa: S301 - own child
        if leaving:
            self._process.wait()
        return outcome, value

    def autopsy(self) -> ParseError:
        """Why the child has gone."""
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace")
        if "MemoryError" in said or "bad_alloc" in said or code == -signal.SIGKILL:
            return ParseError(OUT_OF_MEMORY, f"the process ended with code {code}")
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        current = [place for place, line in enumerate(lines) if line.startswith("Current thread")]
        where = lines[current[0] + 1 : current[0] + 2] if current else lines[-1:]
        return ParseError(CRASHED, "; ".join([cause, *where])[:500])


def _end(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout, errors):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    process.wait()


def _write(stream: IO[bytes], data: bytes) -> None:
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[stream.write(view) :]


def _read(descriptor: int, size: int, deadline: float) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    ready = select.poll()  # unlike select(), it takes descriptors beyond 1023
    ready.register(descriptor, select.POLLIN)
    while view:
        left = deadline - time.monotonic()
        if left <= 0 or not ready.poll(left * 1000):
            raise TimeoutError
        count = os.readv(descriptor, [view])
        if count == 0:
            raise EOFError
        view = view[count:]
    return data


def serve() -> None:
    """The child's side: answer calls on standard input until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints must not go into the pipe
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    timeout_s, memory_mb = pickle.loads(_receive(requests))  # noqa: S301 - own parent
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    limit = _memory().mapped + memory_mb * _MIB
    with contextlib.suppress(ValueError, OSError):  # not every system can set it
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _reply(replies, "ready", None, leaving=False)
    while True:
        data = _receive(requests)
        # Should the parent die while a library hangs in C code, this clock still ends the process.
        faulthandler.dump_traceback_later(timeout_s + _GRACE_S, exit=True)
        outcome, value = _run(data)
        faulthandler.cancel_dump_traceback_later()
        del data
        leaving = outcome == "failed" and value[0] == OUT_OF_MEMORY
        leaving = leaving or _memory().resident > memory_mb * _MIB // 2  # it leaks, or is cut up
        _reply(replies, outcome, value, leaving=leaving)
        if leaving:
            os._exit(0)


def _run(data: bytes) -> tuple[str, Any]:
    try:
        function, arguments = pickle.loads(data)  # noqa: S301 - own parent
        return "done", function(*arguments)
    except ParseError as error:
        return "failed", (error.reason, error.detail)
    except MemoryError:
        return "failed", (OUT_OF_MEMORY, None)
    except Exception as error:  # noqa: BLE001 - whatever a library raises is one file's failure
        return "failed", ("parser error", f"{type(error).__name__}: {error}")


def _receive(stream: IO[bytes]) -> bytes:
    prefix = stream.read(_LENGTH.size)
    if len(prefix) < _LENGTH.size:
        os._exit(0)  # the parent has closed the pipe, or is gone
    return stream.read(_LENGTH.unpack(prefix)[0])


def _reply(stream: IO[bytes], outcome: str, value: Any, *, leaving: bool) -> None:
    try:
        data = pickle.dumps((outcome, value, leaving), pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        data = pickle.dumps(("failed", (OUT_OF_MEMORY, None), leaving))
    except Exception as error:  # noqa: BLE001 - the result is the function's own
        data = pickle.dumps(("failed", ("parser error", f"cannot be pickled: {error}"), leaving))
    try:
        _write(stream, data)
    except OSError:
        os._exit(0)


def _leave_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


class _Memory(NamedTuple):
    """Bytes of this process: address space in use, and of it what is in memory."""

    mapped: int
    resident: int


def _memory() -> _Memory:
    try:
        with open("/proc/self/statm", "rb") as status:  # noqa: PTH123 - light, and only on Linux
            mapped, resident = status.read().split()[:2]
    except OSError:
        return _Memory(0, 0)
    return _Memory(int(mapped) * resource.getpagesize(), int(resident) * resource.getpagesize())
