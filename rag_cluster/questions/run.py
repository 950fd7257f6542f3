"""A run: chunks are drawn, asked about several at a time, and checked.

Chunks are worked on in waves. Outcomes are looked at in the order of the draw, whatever the order
in which they came, so the same seed and the same answers give the same questions, after an
interruption too.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from rag_cluster.answer.sources import Source
from rag_cluster.errors import RefusedError, ServiceError
from rag_cluster.generated import prompt_hash
from rag_cluster.models.ports import Request
from rag_cluster.models.together import together
from rag_cluster.questions.draw import Draw
from rag_cluster.questions.duplicates import Asked
from rag_cluster.questions.frame import Chunks, Frame, Row
from rag_cluster.questions.output import Question
from rag_cluster.questions.partial import Partial
from rag_cluster.questions.questioner import Questioner, source_of
from rag_cluster.questions.state import Outcome, Snapshot, Wanted
from rag_cluster.questions.thin import too_little

WAVE = 1024  # chunks whose texts are held at a time
# A model that gives nothing usable is not asked about a whole collection.
ASKED_PER_QUESTION = 5
FAILED = "request failed"
DUPLICATE = "duplicate question"


class Run:
    """One run, from the first chunk to the last question."""

    def __init__(
        self, frame: Frame, chunks: Chunks, questioner: Questioner, known: Partial, wanted: Wanted,
        *, model: Mapping[str, Any], at_once: int, most_failures: int,
        on_progress: Callable[[Snapshot], None] | None = None,
    ) -> None:  # fmt: skip
        """`model` names the model in what is `known`; `most_failures` in a row end the run.

        So many chunks are asked about `at_once`.
        """
        self.kept: list[Question] = []
        self._frame = frame
        self._draw = Draw(frame)
        self._chunks = chunks
        self._questioner = questioner
        self._known = known
        self._wanted = wanted
        self._model = model
        self._most_failures = most_failures
        # A chunk may take several calls: one that was begun is ended before the next begins.
        self._turn = asyncio.Semaphore(at_once)
        self._show = on_progress
        self._seen = Asked()
        self._start = time.monotonic()
        self._counts = Counter[str]()
        self._skipped = Counter[str]()
        self._failures_in_a_row = 0
        self._ended = "all questions are made"

    async def go(self) -> None:
        """Asks until there are enough questions, no chunks are left, or too many gave none."""
        telling = asyncio.create_task(self._tell_now_and_then())
        try:
            await self._ask()
        finally:
            telling.cancel()
        self._tell()

    async def _ask(self) -> None:
        chunks: list[int] = []
        while (chunks := self._topped_up(chunks)) and self._may_ask():
            rows = self._chunks.rows([self._place(chunk) for chunk in chunks])
            outcomes = await together(self._outcome(row) for row in rows)
            again: list[int | None] = []
            for chunk, row, outcome in zip(chunks, rows, outcomes, strict=True):
                if not self._keep(chunk, row, outcome):
                    again.append(self._draw.after(chunk))
            chunks = [chunk for chunk in again if chunk is not None]
        if len(self.kept) < self._wanted.count and not chunks:
            self._ended = "no chunks are left to ask about"

    def summary(self) -> dict[str, Any]:
        """The counts of the run, as `questions --json` prints them."""
        frame, wanted, counts = self._frame, self._wanted, self._counts
        return {
            "questions": len(self.kept),
            "wanted": wanted.count,
            "ended": self._ended,
            "seed": wanted.seed,
            "by": wanted.by,
            "documents": len({question.source.doc_id for question in self.kept}),
            "strata": dict(Counter(question.stratum for question in self.kept))
            if wanted.by
            else {},
            "chunks": frame.chunks,
            "eligible": len(frame),
            "left_out": {reason: n for reason, n in frame.left_out.items() if n},
            "asked": counts["asked"],
            "taken_over": counts["taken over"],
            "retried": counts["retried"],
            "failed": self._skipped[FAILED],
            "skipped": dict(sorted(self._skipped.items(), key=lambda item: (-item[1], item[0]))),
            "prompt_tokens": counts["prompt tokens"],
            "completion_tokens": counts["completion tokens"],
            "seconds": round(time.monotonic() - self._start, 3),
        }

    def _topped_up(self, chunks: list[int]) -> list[int]:
        """The chunks, and new ones as long as questions are wanted and a wave has room."""
        room = min(self._wanted.count - len(self.kept), WAVE)
        while len(chunks) < room and (chunk := self._draw.next()) is not None:
            chunks.append(chunk)
        return chunks

    def _may_ask(self) -> bool:
        tried = self._counts["asked"] + self._counts["taken over"]
        if tried < ASKED_PER_QUESTION * self._wanted.count:
            return True
        self._ended = f"{tried} chunks were asked about, and too few of them gave a question"
        return False

    def _place(self, chunk: int) -> tuple[int, int]:
        return int(self._frame.shard[chunk]), int(self._frame.row[chunk])

    async def _outcome(self, row: Row) -> Outcome:
        reason = too_little(row["text"], row["header"] or "", self._wanted.min_words)
        if reason is not None:
            return self._count(Outcome(reason=reason))
        source = source_of(row)
        request = self._questioner.request(source)
        name = prompt_hash(request, self._model)
        if (known := self._known.get(row["chunk_id"], name)) is not None:
            self._counts["taken over"] += 1
            self._counts["good before"] += known.reason is None
            return self._count(known)
        return self._count(await self._asked(row["chunk_id"], source, request, name))

    async def _asked(self, chunk_id: str, source: Source, request: Request, name: bytes) -> Outcome:
        try:
            async with self._turn:
                self._counts["asked"] += 1
                outcome = await self._questioner(source, request)
        except RefusedError:
            raise
        except ServiceError as error:
            self._failures_in_a_row += 1
            if self._failures_in_a_row >= self._most_failures:
                raise ServiceError(
                    f"{self._failures_in_a_row} requests in a row failed, at last: {error}"
                ) from error
            return Outcome(reason=FAILED, detail=str(error))
        self._failures_in_a_row = 0
        self._known.put(chunk_id, name, outcome)
        return outcome

    def _count(self, outcome: Outcome) -> Outcome:
        self._counts["retried"] += outcome.retried
        self._counts["prompt tokens"] += outcome.prompt_tokens
        self._counts["completion tokens"] += outcome.completion_tokens
        if outcome.reason is None:
            self._counts["good"] += 1
        else:
            self._skipped[outcome.reason] += 1
        return outcome

    def _keep(self, chunk: int, row: Row, outcome: Outcome) -> bool:
        """Whether the outcome is one question more."""
        if outcome.reason is not None:
            return False
        if not self._seen.add(outcome.question):
            self._counts["good"] -= 1
            self._skipped[DUPLICATE] += 1
            return False
        stratum = self._frame.strata[self._frame.stratum[self._frame.document[chunk]]]
        self.kept.append(
            Question(
                outcome.question, outcome.answer, source_of(row), int(self._frame.shard[chunk]),
                stratum,
            )
        )  # fmt: skip
        return True

    async def _tell_now_and_then(self) -> None:
        while True:
            self._tell()
            await asyncio.sleep(1.0)

    def _tell(self) -> None:
        if self._show is None:
            return
        failed = self._skipped[FAILED]
        self._show(
            Snapshot(
                wanted=self._wanted.count,
                made=self._counts["good"],
                before=self._counts["good before"],
                asked=self._counts["asked"],
                skipped=self._skipped.total() - failed,
                failed=failed,
                elapsed=time.monotonic() - self._start,
            )
        )  # fmt: skip
