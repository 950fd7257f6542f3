"""The lines of all replicas' files in the order of their time."""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rag_cluster.errors import UsageError
from rag_cluster.querylog.shape import parsed

Line = dict[str, Any]

_NAME = re.compile(r"queries-(.+)\.(\d+)\.jsonl")


@dataclass(frozen=True, slots=True)
class File:
    """A file of the log: that of one replica (`name`), the how manieth (`number`, from 1)."""

    path: Path
    name: str
    number: int


def files_of(folder: Path) -> list[File]:
    """The log's files, each replica's together and the oldest first."""
    found = [
        File(path, match.group(1), int(match.group(2)))
        for path in folder.iterdir()
        if (match := _NAME.fullmatch(path.name))
    ]
    return sorted(found, key=lambda file: (file.name, file.number))


def normal(question: str) -> str:
    """The form in which questions are the same that differ only in case and white space."""
    return " ".join(question.casefold().split())


class Log:
    """The lines of a folder. `damaged` counts those that were skipped while they were read."""

    def __init__(self, folder: Path) -> None:
        """Raises UsageError where there is no log."""
        try:
            self._files = files_of(folder)
        except OSError as error:
            raise UsageError(
                f"cannot read the query log in {folder}: {error.strerror}. The service writes it "
                "where service.log.folder says"
            ) from None
        if not self._files:
            raise UsageError(
                f"{folder} holds no query log (queries-*.jsonl): the service writes it where "
                "service.log.folder says"
            )
        self.damaged = 0

    def __iter__(self) -> Iterator[tuple[datetime, Line]]:
        """Each line with its time, in the order of time."""
        replicas: dict[str, list[File]] = defaultdict(list)
        for file in self._files:
            replicas[file.name].append(file)
        parts = [self._lines(files) for files in replicas.values()]
        return heapq.merge(*parts, key=lambda pair: pair[0])

    def _lines(self, files: Sequence[File]) -> Iterator[tuple[datetime, Line]]:
        """The lines of one replica. It wrote them as queries ended, so they are in order."""
        for file in files:
            try:
                with file.path.open(encoding="utf-8", errors="replace") as lines:
                    for text in lines:
                        if text.strip():
                            yield from self._parsed(text)
            except FileNotFoundError:  # the service deleted it, as it was its oldest one
                continue
            except OSError as error:
                raise UsageError(f"cannot read {file.path}: {error.strerror}") from None

    def _parsed(self, text: str) -> Iterator[tuple[datetime, Line]]:
        try:
            found = parsed(text)
        except (ValueError, RecursionError):
            self.damaged += 1
            return
        yield found
