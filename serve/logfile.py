"""Log files of one process: a full one is followed by another, and few are kept."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from rag_cluster.querylog import files_of

DAY_S = 86_400


class LogFile:
    """Appends whole lines to `queries-NAME.NUMBER.jsonl`; a full file is followed by the next.

    A file is never renamed, so a reader does not lose its place. Each line is written by one call
    to the system, so that it stands whole or, on a full disk, cut off; the next one then begins on
    a line of its own.
    """

    def __init__(
        self, folder: Path, name: str, max_bytes: int, files: int, days: int | None = None
    ) -> None:
        """`files` are kept of this name; files of any name are deleted after `days`."""
        self._folder = folder
        self._name = re.sub(r"[^\w-]+", "-", name, flags=re.ASCII)
        self._max_bytes = max_bytes
        self._files = files
        self._days = days
        self._path = folder
        self._file: int | None = None
        self._size = 0
        self._number = 0
        self._cut_off = False

    def write(self, line: str) -> None:
        """Appends a line. Raises OSError; the next line is tried anew."""
        data = line.encode("utf-8", "replace") + b"\n"
        if self._gone():
            self.close()
        if self._file is not None and self._size + len(data) > self._max_bytes:
            self.close()
            self._number += 1
        if self._file is None:
            self._open()
        assert self._file is not None  # it was opened
        if self._cut_off:
            data = b"\n" + data
        written = os.write(self._file, data)
        self._size += written
        self._cut_off = written < len(data)
        if self._cut_off:
            raise OSError(f"only {written} of {len(data)} bytes of a line were written")

    def close(self) -> None:
        """Closes the file; a further line opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _gone(self) -> bool:
        """Whether the open file was deleted or moved away, and what is written to it is lost."""
        if self._file is None:
            return False
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file))
        except OSError:
            return True

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if not self._number:
            mine = [file.number for file in files_of(self._folder) if file.name == self._name]
            self._number = max(mine, default=1)
        self._path = self._folder / f"queries-{self._name}.{self._number}.jsonl"
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._size = os.fstat(self._file).st_size
        self._delete_old()

    def _delete_old(self) -> None:
        oldest = None if self._days is None else time.time() - self._days * DAY_S
        for file in files_of(self._folder):
            mine = file.name == self._name
            if mine and file.number == self._number:
                continue
            surplus = mine and file.number <= self._number - self._files
            try:
                if surplus or (oldest is not None and file.path.stat().st_mtime < oldest):
                    file.path.unlink()
            except FileNotFoundError:  # another replica was faster
                continue
