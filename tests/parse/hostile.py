"""What a parser may do to its process; run in the child by the tests of isolation."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

from rag_cluster.parse.parsed import ParseError


def add(one: int, other: int) -> int:
    return one + other


def own_pid() -> int:
    return os.getpid()


def echo(data: bytes) -> bytes:
    return data


def hang() -> None:
    while True:
        time.sleep(1)


def spin_in_c() -> None:
    """Busy in C with the interpreter's lock held."""
    sum(range(10**13))


def segfault() -> None:
    ctypes.string_at(0)


def leave() -> None:
    os._exit(3)


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def eat_memory() -> None:
    kept = []
    while True:
        kept.append(bytearray(32 * 1024 * 1024))


def print_much() -> str:
    print("x" * 300_000)
    sys.stderr.write("y" * 300_000)
    os.write(1, b"raw")
    return "done"


def refuse() -> None:
    raise ParseError("damaged", "by purpose")


def fail() -> None:
    message = "a library's own error"
    raise LookupError(message)


def give_what_cannot_be_sent() -> object:
    return lambda: None
