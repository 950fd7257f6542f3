"""Passages in the order of a scorer, and of a cascade of scorers.

In a cascade each stage scores what the one before it ranked highest, so that an expensive model
reads few passages. One reranker is a cascade of one stage; none is a cascade without stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_cluster.errors import ModelError
from rag_cluster.models.ports import AsyncScorer


@dataclass(frozen=True, slots=True)
class Cascaded:
    """A new order of all passages.

    `order` (int64 [n]) holds their places in the list that was given, best first. `scores`
    (float64 [n]) and `stages` (int64 [n]) are aligned with `order`: the score by the last stage
    that saw the passage, and that stage's number from 0; NaN and -1 where none did. Scores of
    different stages do not compare.
    """

    order: NDArray[np.int64]
    scores: NDArray[np.float64]
    stages: NDArray[np.int64]


async def rerank(
    query: str, texts: Sequence[str], scorer: AsyncScorer
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The order of the texts by the scorer, and their scores.

    The order (int64 [n]) holds places in `texts`, best first; equal scores keep the order that
    they had. The scores (float64 [n]) are in the order of `texts`. Raises ModelError where the
    scorer gives another number of scores, or one that is not a number.
    """
    if not texts:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float64)
    scores = np.asarray(await scorer.score(query, texts), dtype=np.float64)
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
    return np.argsort(-scores, kind="stable").astype(np.int64), scores


async def cascade(
    query: str, texts: Sequence[str], stages: Sequence[tuple[AsyncScorer, int]]
) -> Cascaded:
    """The texts in the order of the stages, each a scorer and how many passages it is given.

    A stage takes the highest of the order so far. What it does not take stays behind those, in the
    order that it had, so that no passage is lost. Raises ModelError as `rerank` does.
    """
    order = np.arange(len(texts), dtype=np.int64)
    scores = np.full(len(texts), np.nan)
    seen = np.full(len(texts), -1, dtype=np.int64)
    size = len(texts)
    for number, (scorer, count) in enumerate(stages):
        # A later stage never reaches beyond what an earlier one scored.
        size = min(size, count)
        head = order[:size]
        new, found = await rerank(query, [texts[i] for i in head], scorer)
        scores[head], seen[head] = found, number
        order = np.concatenate([head[new], order[size:]])
    return Cascaded(order, scores[order], seen[order])
