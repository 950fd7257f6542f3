"""What is wanted of a run, what came of a chunk, and a moment of the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many questions, drawn by which seed, divided by which declared field.

    A chunk has at least `min_words` distinct content words. `qrels` is beside the questions where
    it is None.
    """

    count: int = 100
    seed: int = 1
    by: str | None = None
    min_words: int = 12
    qrels: Path | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one chunk: a question with its answer, or the reason why there is none.

    `detail` says more of the reason. `retried` is whether the model was told of a problem and asked
    once more. Token counts are those of all calls.
    """

    question: str = ""
    answer: str = ""
    reason: str | None = None
    detail: str = ""
    retried: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of a run: of `wanted` questions, those `made`, and what became of other chunks.

    `before` of them were made by an interrupted run. `asked` are the chunks that the model was
    asked about in this one, `failed` those of them whose request failed; `elapsed` in seconds.
    """

    wanted: int
    made: int = 0
    before: int = 0
    asked: int = 0
    skipped: int = 0
    failed: int = 0
    elapsed: float = 0.0

    @property
    def rate(self) -> float:
        """Chunks asked about per second."""
        return self.asked / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """By the questions made in this run; None before there is one."""
        now = self.made - self.before
        return max(0, self.wanted - self.made) * self.elapsed / now if now > 0 else None
