"""Which documents stand for which: each duplicate is like the one that it is a duplicate of.

Documents are taken in order. One that is like none before it leads; those after it that are like
it follow it, and lead none themselves. So a follower is always near its leader, which chains of
likenesses (A like B, B like C) do not promise, and no two leaders are near each other. What comes
later in the order never changes what was before it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_cluster.hashes import Words
from rag_cluster.index.minhash import Signatures

Rows = NDArray[np.int64]


def find_leaders(
    texts: Words,
    bands: NDArray[np.uint64],
    signed: NDArray[np.bool_],
    read: Callable[[Rows], Signatures],
    least: int,
) -> Rows:
    """The row of each document's leader: its own where it leads.

    `texts` (uint64 [n, 2]) tell equal texts, `bands` (uint64 [n, bands]) likely ones among those
    `signed`; `read` gives the signatures of some rows. Documents of which signatures agree in
    `least` places are alike.
    """
    leader = _first_of_equals(texts)
    alone = np.flatnonzero((leader == np.arange(len(leader))) & signed)
    rows = alone[_shares_a_band(bands[alone])]
    buckets = _Buckets.of(bands[rows])
    made = read(rows)
    follows = np.full(len(rows), -1, np.int64)
    for row in np.flatnonzero(buckets.after.any(axis=1)).tolist():
        if follows[row] < 0:
            others = buckets.later(row)
            others = others[follows[others] < 0]
            alike = np.count_nonzero(made[others] == made[row], axis=1) >= least
            follows[others[alike]] = row
    led = follows >= 0
    leader[rows[led]] = rows[follows[led]]
    found: Rows = leader[leader]  # an equal of a follower follows with it
    return found


def least_equal(threshold: float, permutations: int) -> int:
    """In how many places signatures must agree for an estimate of at least the threshold."""
    return int(np.ceil(threshold * permutations - 1e-9))


def _first_of_equals(texts: Words) -> Rows:
    if not len(texts):
        return np.empty(0, np.int64)
    _, first, group = np.unique(texts, axis=0, return_index=True, return_inverse=True)
    leader: Rows = first[group.reshape(-1)].astype(np.int64)
    return leader


def _shares_a_band(bands: NDArray[np.uint64]) -> NDArray[np.bool_]:
    shared = np.zeros(len(bands), bool)
    for band in bands.T:
        _, group, counts = np.unique(band, return_inverse=True, return_counts=True)
        shared |= counts[group] > 1
    return shared


@dataclass(frozen=True)
class _Buckets:
    """The rows of each band in order of their hashes, and where each row stands among them."""

    order: NDArray[np.int32]  # [bands, rows]
    place: NDArray[np.int32]  # [rows, bands]
    after: NDArray[np.int32]  # [rows, bands]: how many rows stand after it in its bucket

    @classmethod
    def of(cls, bands: NDArray[np.uint64]) -> _Buckets:
        rows, count = bands.shape
        order = np.empty((count, rows), np.int32)
        place, after = np.empty((rows, count), np.int32), np.empty((rows, count), np.int32)
        for number, band in enumerate(bands.T):
            order[number] = np.argsort(band, kind="stable")
            place[order[number], number] = np.arange(rows)
            ends = np.searchsorted(band[order[number]], band, side="right")
            after[:, number] = ends - place[:, number] - 1
        return cls(order, place, after)

    def later(self, row: int) -> Rows:
        """The rows after this one that share a bucket with it, each once, in order."""
        parts = [
            self.order[number, place + 1 : place + 1 + after]
            for number, (place, after) in enumerate(
                zip(self.place[row].tolist(), self.after[row].tolist(), strict=True)
            )
            if after
        ]
        return np.unique(np.concatenate(parts)).astype(np.int64)
