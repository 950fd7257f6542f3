"""Adding to a file of API keys, removing from it, and listing it: what `rag-cluster keys` does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rag_cluster.errors import ConfigError
from serve.key_file import Caller, check_enforced, check_name, check_rate, hash_of, read_keys

PREFIX = "rag-"
HEAD = "# API keys of rag-cluster: names and hashes. Made and changed by 'rag-cluster keys'.\n"


def new_key() -> str:
    """A key of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def add_key(
    file: Path,
    name: str,
    where: Mapping[str, Any] | None = None,
    requests_per_minute: float | None = None,
) -> str:
    """Makes a key and writes its hash; the key, which is kept nowhere, is what this returns.

    Raises ConfigError where the name is taken, or something of it or the file cannot be used.
    """
    place = f"key {name!r}"
    caller = Caller(
        check_name(name, place),
        check_enforced(None if where is None else dict(where), place),
        check_rate(requests_per_minute, place),
    )
    with _changing(file) as callers:
        if name in {other.name for other in callers.values()}:
            raise ConfigError(f"{file} has a key {name!r}: remove it first, or take another name")
        key = new_key()
        callers[hash_of(key)] = caller
    return key


def remove_key(file: Path, name: str) -> None:
    """Takes a key out. Raises ConfigError where there is none of this name."""
    with _changing(file) as callers:
        left = {digest: caller for digest, caller in callers.items() if caller.name != name}
        if len(left) == len(callers):
            known = ", ".join(repr(caller.name) for caller in callers.values()) or "none"
            raise ConfigError(f"{file} has no key {name!r}; there are: {known}")
        callers.clear()
        callers.update(left)


def list_keys(file: Path) -> list[dict[str, Any]]:
    """The keys of a file, without their hashes. Raises ConfigError."""
    return [
        {"name": one.name, "filter": one.where, "requests_per_minute": one.requests_per_minute}
        for one in read_keys(file).values()
    ]


@contextlib.contextmanager
def _changing(file: Path) -> Iterator[dict[str, Caller]]:
    """The callers of a file, which are written back; one process at a time does this."""
    try:
        target = file.resolve()  # of a link, the file that it leads to is written
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a NUL
        raise ConfigError(f"{str(file)!r} cannot be a file of API keys: {error}") from None
    try:
        folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"there is no folder {target.parent}: {error.strerror}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        callers = read_keys(target) if _is_there(target) else {}
        yield callers
        _write(target, callers)
        os.fsync(folder)
    finally:
        os.close(folder)  # and with it the lock


def _is_there(file: Path) -> bool:
    """Whether there is such a file. Raises ConfigError for what must not be replaced by one."""
    try:
        mode = file.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"{file} cannot be a file of API keys: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise ConfigError(
            f"{file} is a folder, a device or the like, and stays as it is: name a file of API "
            "keys, or one that is not there yet"
        )
    return True


def _write(file: Path, callers: Mapping[str, Caller]) -> None:
    """Replaces the file as a whole, for its owner alone to read. Raises ConfigError."""
    rows = [_row(digest, caller) for digest, caller in callers.items()]
    written: str | None = None
    try:
        content = HEAD + yaml.safe_dump(rows, sort_keys=False, allow_unicode=True)
        # mkstemp gives a file that only its owner may read and write.
        handle, written = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        _is_there(file)  # once more: it is what a rename replaces, whatever it is
        Path(written).replace(file)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot write {file}: {reason}") from None
    finally:
        if written is not None:
            Path(written).unlink(missing_ok=True)  # it is not there any more if all went well


def _row(digest: str, caller: Caller) -> dict[str, Any]:
    row: dict[str, Any] = {"name": caller.name, "hash": digest}
    if caller.requests_per_minute is not None:
        row["requests_per_minute"] = caller.requests_per_minute
    if caller.where is not None:
        row["filter"] = dict(caller.where)
    return row
