"""What a run was answered so far, a line of JSON for each chunk: `FILE.partial`.

A line is found again by its chunk and by what the model was asked (`prompt_hash`), so another
model, prompt or chunker asks anew, and another seed or count takes over what fits. A process that
is killed leaves at most half a line at the end, which is cut off.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rag_cluster.errors import UsageError
from rag_cluster.questions.state import Outcome


class Partial:
    """The outcomes in a file, held by one process at a time.

    Raises UsageError where it cannot be written, another process writes it, or it is something
    else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("a+b")
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise UsageError(f"another process is writing {path}: name another --out") from None
        self._outcomes = self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._file.close()
        if not self._outcomes:
            self.remove()

    def __len__(self) -> int:
        return len(self._outcomes)

    def get(self, chunk_id: str, prompt: bytes) -> Outcome | None:
        """What came of a request about a chunk, if it was asked before."""
        return self._outcomes.get((chunk_id, prompt.hex()))

    def put(self, chunk_id: str, prompt: bytes, outcome: Outcome) -> None:
        """Writes an outcome down, so that a killed process has not asked in vain."""
        self._outcomes[chunk_id, prompt.hex()] = outcome
        line = {"chunk_id": chunk_id, "prompt": prompt.hex(), **dataclasses.asdict(outcome)}
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()

    def remove(self) -> None:
        """Removes the file, when all is written elsewhere."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> dict[tuple[str, str], Outcome]:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        found = {}
        try:
            for line in data[:whole].splitlines():
                row: dict[str, Any] = json.loads(line)
                key = row.pop("chunk_id"), row.pop("prompt")
                found[key] = Outcome(**row)
        except (ValueError, KeyError, TypeError, AttributeError):
            self._file.close()
            raise UsageError(
                f"{self.path} does not hold what a run of 'rag-cluster questions' left: remove "
                "it, or name another --out"
            ) from None
        self._file.truncate(whole)
        return found
