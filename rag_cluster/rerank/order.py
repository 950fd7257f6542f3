"""Passages in the order of a reranker, and of a cascade of rerankers, within a time.

In a cascade each stage reads what the one before it ranked highest, so that an expensive model
reads few passages. One reranker is a cascade of one stage; none is a cascade without stages.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rag_cluster.errors import ModelError, ServiceError

Places = NDArray[np.int64]
Scores = NDArray[np.float64]


class Step(NamedTuple):
    """How far a reranker has come with n texts.

    `order` (int64 [n]) holds their places in the list that was given, best first. `scores`
    (float64 [n]) are in the order of that list; NaN for a text that was not read yet, which stands
    behind all that were, in the order that it had.
    """

    order: Places
    scores: Scores


class Reranker(Protocol):
    """Orders texts by their relevance to a query, step by step."""

    def steps(self, query: str, texts: Sequence[str]) -> AsyncGenerator[Step, None]:
        """Ever better orders, each of which may be used; the last one is final.

        Raises ModelError and ServiceError.
        """


@dataclass(frozen=True, slots=True)
class Stage:
    """A reranker, how many passages it is given, and whether its failure leaves the order as is."""

    name: str
    reranker: Reranker
    candidates: int
    falls_back: bool = False


@dataclass(frozen=True, slots=True)
class Cascaded:
    """A new order of all passages.

    `order` (int64 [n]) holds their places in the list that was given, best first. `scores`
    (float64 [n]) and `stages` (int64 [n]) are aligned with `order`: the score by the last stage
    that read the passage, and that stage's number from 0; NaN and -1 where none did. Scores of
    different stages do not compare. `notes` say what failed or was cut off.
    """

    order: Places
    scores: Scores
    stages: Places
    notes: list[str] = field(default_factory=list)


async def cascade(
    query: str, texts: Sequence[str], stages: Sequence[Stage], deadline_s: float | None = None
) -> Cascaded:
    """The texts in the order of the stages.

    A stage takes the highest of the order so far. What it does not take stays behind those, in the
    order that it had, so that no passage is lost. After `deadline_s` seconds the stage at work is
    given up, those after it are left out, and the last step that there is counts. Raises ModelError
    and ServiceError of a stage that does not fall back.
    """
    until = None if deadline_s is None else asyncio.get_running_loop().time() + deadline_s
    order = np.arange(len(texts), dtype=np.int64)
    scores = np.full(len(texts), np.nan)
    seen = np.full(len(texts), -1, dtype=np.int64)
    size = len(texts)
    notes: list[str] = []
    for number, stage in enumerate(stages):
        # A later stage never reaches beyond what an earlier one was given.
        size = min(size, stage.candidates)
        head = order[:size]
        done = await _run(stage, query, [texts[i] for i in head], until)
        if done.step is not None:
            read = ~np.isnan(done.step.scores)
            scores[head[read]], seen[head[read]] = done.step.scores[read], number
            order = np.concatenate([head[done.step.order], order[size:]])
        notes += done.notes
        if done.late:
            break
    return Cascaded(order, scores[order], seen[order], notes)


class _Done(NamedTuple):
    step: Step | None
    notes: list[str]
    late: bool = False


async def _run(stage: Stage, query: str, texts: Sequence[str], until: float | None) -> _Done:
    """The last step of a stage that came in time."""
    if not texts:
        return _Done(None, [])
    last: Step | None = None
    steps = stage.reranker.steps(query, texts)
    try:
        async with asyncio.timeout_at(until):
            async for step in steps:
                last = step
    except TimeoutError:
        read = 0 if last is None else int(np.count_nonzero(~np.isnan(last.scores)))
        note = (
            f"the time for reranking was over while {stage.name} was at work ({read} of "
            f"{len(texts)} passages ordered): the order so far is used"
        )
        return _Done(last, [note], late=True)
    except (ModelError, ServiceError) as error:
        if not stage.falls_back:
            raise
        return _Done(last, [f"{stage.name} failed, and the order before it is used: {error}"])
    finally:
        await steps.aclose()
    return _Done(last, [])
