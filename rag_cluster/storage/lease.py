"""A lock in an object store: an object that is created exclusively, and a sign of life beside it.

    LOCK            who holds it; written by the one that takes it, and by nobody else
    LOCK.<token>    written again and again by the holder with this token

A holder that died leaves both behind. On the same machine its process is looked for; elsewhere it
is dead when its sign of life is some minutes old, by the store's own clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from rag_cluster.errors import CollectionError
from rag_cluster.storage.lock import myself, refused
from rag_cluster.storage.places import key, refusals, remote

REFRESH_S = 20.0
STALE_S = 180.0
SETTLE_S = 2.0


class Lease:
    """The lock object at a remote path. Raises CollectionError with who holds it and since when.

    A sign of life comes every `refresh_s` seconds; after `stale_s` without one it is stale. Who
    takes over a stale one waits `settle_s` seconds and looks again, for another process may have
    done the same.
    """

    def __init__(
        self,
        path: Path,
        *,
        refresh_s: float = REFRESH_S,
        stale_s: float = STALE_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._path = path
        self._files = remote(path)
        self._refresh_s = refresh_s
        self._stale_s = stale_s
        self._token = uuid.uuid4().hex
        self._done = threading.Event()
        self._data = json.dumps(
            {
                "holder": myself(),
                "machine": _machine(),
                "process": os.getpid(),
                "token": self._token,
            }
        ).encode()
        self._take(settle_s)
        self._thread = threading.Thread(target=self._keep, name="collection lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises CollectionError where another process took it over."""
        found = self._read()
        if found is None or found.get("token") != self._token:
            holder = "nobody" if found is None else found["holder"]
            raise CollectionError(
                f"{self._path} was lost to {holder} while this process wrote: nothing was "
                "published; start again"
            )

    def release(self) -> None:
        """Stops the signs of life, and removes the lock if it is still this process's own."""
        self._done.set()
        self._thread.join()
        with contextlib.suppress(*refusals()):  # then it goes stale by itself
            if (self._read() or {}).get("token") == self._token:
                self._files.rm_file(key(self._path))
            self._files.rm_file(self._sign(self._token))

    def _take(self, settle_s: float) -> None:
        self._files.pipe_file(self._sign(self._token), b"")
        try:
            self._create_or_take_over(settle_s)
            # Also tells where a store ignores the condition of an exclusive write.
            found = self._read()
            if found is None or found.get("token") != self._token:
                raise refused(self._path.parent, (found or {}).get("holder", "another process"))
        except BaseException:
            with contextlib.suppress(*refusals()):
                self._files.rm_file(self._sign(self._token))
            raise

    def _create_or_take_over(self, settle_s: float) -> None:
        for _ in range(3):
            try:
                self._files.pipe_file(key(self._path), self._data, mode="create")
            except FileExistsError:
                found = self._read()
            else:
                return
            if found is None:
                continue  # it was released this moment
            if not self._is_dead(found):
                hint = f"; if that process is gone, remove {self._path}"
                raise refused(self._path.parent, found["holder"], hint)
            self._files.pipe_file(key(self._path), self._data)
            with contextlib.suppress(*refusals()):
                self._files.rm_file(self._sign(found.get("token", "")))
            time.sleep(settle_s)
            return

    def _keep(self) -> None:
        while not self._done.wait(self._refresh_s):
            # Where the store is away, the next beat tries again.
            with contextlib.suppress(*refusals()):
                self._files.pipe_file(self._sign(self._token), b"")

    def _sign(self, token: str) -> str:
        return f"{key(self._path)}.{token}"

    def _read(self) -> dict[str, Any] | None:
        try:
            data = self._files.cat_file(key(self._path))
        except FileNotFoundError:
            return None
        try:
            found = json.loads(data)
        except ValueError:
            found = None
        return found if isinstance(found, dict) and "holder" in found else {
            "holder": "another process"
        }  # fmt: skip

    def _is_dead(self, found: dict[str, Any]) -> bool:
        if found.get("machine") == _machine():
            return not _is_running(int(found["process"]))
        return self._age(str(found.get("token"))) > self._stale_s

    def _age(self, token: str) -> float:
        """Seconds since the holder's last sign of life; both times are the store's."""
        now = self._files.modified(self._sign(self._token))
        try:
            then = self._files.modified(self._sign(token))
        except FileNotFoundError:
            then = self._files.modified(key(self._path))
        return float((now - then).total_seconds())


def _machine() -> str:
    """This machine since it was started, and the container where process ids are counted."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return socket.gethostname()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
