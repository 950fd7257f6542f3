"""How far a hit stands out among the candidates of each channel, whatever the fusion made of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rag_cluster.retrieve.fuse import Ranking, channel_scores

# The best candidates may all be right; those behind them are what a wrong hit looks like.
AHEAD = 10
FEWEST = 10
MOST = 100.0  # what counts as far out; also where the others are all alike


def standing(rankings: Mapping[str, Ranking], row: int) -> dict[str, float]:
    """For each channel by how many standard deviations the row's score is above the other ones.

    The others are the candidates from rank 11 on; a channel with fewer than 20 candidates tells
    nothing and is left out. A row that a channel did not find stands at 0, as does one below the
    mean; 100 is the most. Scores on another scale give the same, so it holds of any encoder.

    That the spread of scores predicts how well a query is answered: Shtok et al., "Predicting Query
    Performance by Query-Drift Estimation" (TOIS 2012). They take one figure of the whole list; this
    is one of a hit.
    """
    found: dict[str, float] = {}
    scores = channel_scores(rankings, np.array([row], dtype=np.int64))
    for channel, ranking in rankings.items():
        others = ranking.scores[AHEAD:].astype(np.float64)
        if len(others) < FEWEST:
            continue
        above = float(scores[channel][0] - others.mean())
        spread = float(others.std())
        if not above > 0:  # also where the channel has not the row, whose score is not a number
            found[channel] = 0.0
        else:
            found[channel] = min(above / spread, MOST) if spread > 0 else MOST
    return found
