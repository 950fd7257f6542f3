"""The lock of a collection: one writer at a time, and who it is."""

from __future__ import annotations

import fcntl
import getpass
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from rag_cluster.errors import CollectionError


def lock(path: Path) -> TextIO:
    """Locks the collection for writing; the operating system frees it when the process dies."""
    file = (path / "LOCK").open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        raise CollectionError(
            f"{path} is being written by {holder}: wait for it, or end it"
        ) from None
    file.truncate(0)
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    file.write(f"{_user()} on {socket.gethostname()} (process {os.getpid()}, since {since})")
    file.flush()
    return file


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"
