"""Fusion: the rankings of several channels to one.

Pure functions over rankings of row numbers. What a row is, and how a channel found it, is not known
here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Scores = NDArray[np.floating]

# What an unrelated passage scores, whatever the query. BM25 and SPLADE give 0 where no term is
# shared. A cosine can be -1, but text encoders hardly go below 0, which two unrelated texts have; a
# minimum of -1 would press all scores together near 1, and was measured to rank worse.
LOWEST_SCORE: Mapping[str, float] = {"dense": 0.0, "bm25": 0.0, "splade": 0.0}


class Ranking(NamedTuple):
    """Rows int64[n], no row twice, and their scores float[n], best first."""

    rows: Rows
    scores: Scores

    @classmethod
    def of(cls, rows: NDArray[np.integer], scores: NDArray[np.floating]) -> Ranking:
        """A ranking from one line of an index's answer: rows of -1 (no such hit) are dropped."""
        found = rows >= 0
        return cls(rows[found].astype(np.int64), scores[found].astype(np.float64))

    def first(self, n: int) -> Ranking:
        """The best n of it."""
        return Ranking(self.rows[:n], self.scores[:n])


def reciprocal_rank_fusion(
    rankings: Mapping[str, Ranking], weights: Mapping[str, float] | None = None, k: float = 60.0
) -> Ranking:
    """The sum over channels of weight / (k + rank), with ranks from 1.

    A channel that does not have a row adds nothing to it. A channel without a weight weighs 1; the
    best row of one channel with weight 1 gets 1/61. Best first, ties by row.

    Source: Cormack, Clarke, Büttcher: Reciprocal Rank Fusion outperforms Condorcet and individual
    Rank Learning Methods (SIGIR 2009).
    """
    weights = weights or {}
    parts = [
        (ranking.rows, weights.get(channel, 1.0) / (k + np.arange(1, len(ranking.rows) + 1)))
        for channel, ranking in rankings.items()
    ]
    return _sum(parts)


def convex(
    rankings: Mapping[str, Ranking],
    weights: Mapping[str, float],
    lowest: Mapping[str, float] | None = LOWEST_SCORE,
) -> Ranking:
    """The weighted mean over channels of scores that were brought to [0, 1].

    A score s becomes (s - low) / (high - low): `high` is the channel's best score for this query,
    and `low` the score of an unrelated passage (`lowest`), or, for a channel that `lowest` does not
    name, or which went below that, its worst score in this ranking. So with the default a score
    does not change with how many candidates were fetched. Where high equals low (one row, or all
    alike) every row gets 1: it was found, and nothing tells the rows apart. A row that a channel
    did not find gets 0 from it. Weights are divided by their sum over the given channels; all
    zero is a ValueError. Best first, ties by row.

    Source: Bruch, Gai, Ingber: An Analysis of Fusion Functions for Hybrid Retrieval (TOIS 2023),
    the convex combination with theoretical min-max normalisation.
    """
    total = sum(weights.get(channel, 0.0) for channel in rankings)
    if rankings and total <= 0:
        raise ValueError(f"no channel of {sorted(rankings)} has a weight above 0: {dict(weights)}")
    parts = [
        (
            ranking.rows,
            weights.get(channel, 0.0) / total * _normalised(ranking, (lowest or {}).get(channel)),
        )
        for channel, ranking in rankings.items()
    ]
    return _sum(parts)


def alpha_weights(
    alpha: float,
    channels: Collection[str] = ("dense", "bm25"),
    weights: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """The weights of convex fusion: alpha for dense, and 1 - alpha for the other channels together.

    These share it as `weights` say, by default (and where all are 0) alike; without dense they
    share all.
    """
    others = {name: (weights or {}).get(name, 1.0) for name in channels if name != "dense"}
    if not any(others.values()):
        others = dict.fromkeys(others, 1.0)
    rest = 1.0 - alpha if "dense" in channels else 1.0
    total = sum(others.values())
    shares = {name: rest * own / total for name, own in others.items()}
    return {"dense": alpha, **shares} if "dense" in channels else shares


def channel_ranks(rankings: Mapping[str, Ranking], rows: Rows) -> dict[str, Rows]:
    """For each channel the rank, from 1, of each of the rows int64[n]; 0 where it has it not."""
    found = {channel: _positions(ranking, rows) for channel, ranking in rankings.items()}
    return {channel: positions + 1 for channel, positions in found.items()}


def channel_scores(rankings: Mapping[str, Ranking], rows: Rows) -> dict[str, Scores]:
    """For each channel its own score of each of the rows, float64[n]; NaN where it has it not."""
    scores: dict[str, Scores] = {}
    for channel, ranking in rankings.items():
        padded = np.append(ranking.scores.astype(np.float64), np.nan)
        scores[channel] = padded[_positions(ranking, rows)]
    return scores


def _positions(ranking: Ranking, rows: Rows) -> Rows:
    """The position of each row in the ranking, -1 where absent."""
    places = {int(row): position for position, row in enumerate(ranking.rows)}
    return np.array([places.get(int(row), -1) for row in rows], dtype=np.int64)


def _normalised(ranking: Ranking, lowest: float | None) -> Scores:
    scores = ranking.scores.astype(np.float64)
    if not len(scores):
        return scores
    high = scores.max()
    # A score under the theoretical minimum (vectors that are not normalised) must not become
    # negative: the worst score seen is then the minimum.
    low = scores.min() if lowest is None else min(lowest, scores.min())
    if high <= low:
        return np.ones_like(scores)
    normalised: Scores = (scores - low) / (high - low)
    return normalised


def _sum(parts: list[tuple[Rows, Scores]]) -> Ranking:
    """Adds up what each part gives to its rows."""
    if not parts:
        return Ranking(np.empty(0, np.int64), np.empty(0, np.float64))
    all_rows = np.concatenate([rows for rows, _ in parts]).astype(np.int64)
    rows, inverse = np.unique(all_rows, return_inverse=True)
    sums = np.zeros(len(rows), np.float64)
    np.add.at(sums, inverse, np.concatenate([scores for _, scores in parts]))
    order = np.lexsort((rows, -sums))
    return Ranking(rows[order], sums[order])
