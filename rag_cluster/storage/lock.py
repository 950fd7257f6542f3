"""The lock of a collection: one writer at a time, and who it is.

On disk the operating system frees it when its process dies. In an object store, which knows no
processes, it is an object that its holder refreshes: see `storage.lease`.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, TextIO

from rag_cluster.errors import CollectionError
from rag_cluster.storage.files import make_folder
from rag_cluster.storage.places import check_place, is_local, reason, refusals

NAME = "LOCK"


class Lock(Protocol):
    """A lock that is held."""

    def check(self) -> None:
        """Raises CollectionError where it is not held any more."""

    def release(self) -> None:
        """Lets the next writer in."""


class FileLock:
    """A lock of the operating system (flock) on a file. Raises CollectionError where it is held."""

    def __init__(self, path: Path) -> None:
        self._file = _locked_file(path)

    def check(self) -> None:
        """The operating system keeps it until the file is closed."""

    def release(self) -> None:
        """Closes the file."""
        self._file.close()


def acquire(path: Path) -> Lock:
    """The lock of a collection for writing. Raises CollectionError with who holds it."""
    if is_local(path):
        return FileLock(path)
    from rag_cluster.storage.lease import Lease

    return Lease(path / NAME)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[Lock]:
    """Holds the lock; what the disk or the store refuses becomes a CollectionError."""
    with explained(path):
        check_place(path)
        make_folder(path)
        lock = acquire(path)
        try:
            yield lock
        finally:
            lock.release()


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Maps what the disk or the store refuses to CollectionError."""
    try:
        yield
    except refusals() as error:
        raise CollectionError(f"cannot write the collection {path}: {reason(error)}") from None


def myself() -> str:
    """Who this process is, for the one that is refused."""
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{_user()} on {socket.gethostname()} (process {os.getpid()}, since {since})"


def refused(path: Path, holder: str, hint: str = "") -> CollectionError:
    """What the second writer is told."""
    return CollectionError(f"{path} is being written by {holder}: wait for it, or end it{hint}")


def _locked_file(path: Path) -> TextIO:
    file = (path / NAME).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        raise refused(path, holder) from None
    file.truncate(0)
    file.write(myself())
    file.flush()
    return file


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
