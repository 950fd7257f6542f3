"""The order of a scorer: each passage gets a score of its own, whatever stands beside it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

import numpy as np

from rag_cluster.errors import ModelError
from rag_cluster.models.ports import AsyncScorer
from rag_cluster.rerank.order import Scores, Step


class ByScore:
    """Highest score first; equal scores keep the order that they had.

    With `batch` the passages are scored so many at a time, from the first on, with a step after
    each. As no score depends on other passages, such a step is what the scorer would give with
    fewer candidates. Without it one call scores all, which pads less and is faster.
    """

    def __init__(self, scorer: AsyncScorer, batch: int | None = None) -> None:
        self._scorer = scorer
        self._batch = batch

    async def steps(self, query: str, texts: Sequence[str]) -> AsyncGenerator[Step, None]:
        """A step after each batch.

        Raises ModelError where the scorer gives another number of scores than there are passages,
        or a score that is not a number.
        """
        scores = np.full(len(texts), np.nan)
        size = self._batch or len(texts)
        for start in range(0, len(texts), size):
            part = texts[start : start + size]
            found = np.asarray(await self._scorer.score(query, part), dtype=np.float64)
            scores[start : start + size] = _checked(found, part)
            # What was not scored yet is NaN, which sorts last.
            order = np.argsort(-scores, kind="stable").astype(np.int64)
            yield Step(order, scores.copy())


def _checked(scores: Scores, texts: Sequence[str]) -> Scores:
    if scores.shape != (len(texts),):
        raise ModelError(
            f"the reranker gave scores of shape {scores.shape} for {len(texts)} passages"
        )
    if np.isnan(scores).any():
        place = int(np.flatnonzero(np.isnan(scores))[0])
        raise ModelError(
            f"the reranker gave a score that is not a number for passage {place + 1} of "
            f"{len(texts)}, {texts[place][:60]!r}"
        )
    return scores
