"""The order of hits: best score first, ties by row; beyond the last hit row -1, score -inf."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]
Rows = NDArray[np.int64]
Hits = tuple[Scores, Rows]
Mask = NDArray[np.bool_]

NO_ROW = -1


def no_hits(queries: int, k: int) -> Hits:
    """float32 [queries, k] of -inf and int64 [queries, k] of -1."""
    scores = np.full((queries, k), -np.inf, dtype=np.float32)
    return scores, np.full((queries, k), NO_ROW, dtype=np.int64)


def order_hits(scores: Scores, rows: Rows, k: int) -> Hits:
    """The best k of each line, ordered by falling score and then by row.

    `scores` and `rows` are [queries, n], row -1 where there is no hit; the result is [queries, k].
    """
    ordered_scores, ordered_rows = no_hits(len(scores), k)
    none = rows == NO_ROW
    if none.any():
        scores = np.where(none, -np.inf, scores)
    # lexsort takes its last key first: hits before what is no hit, then score, then row.
    order = np.lexsort((rows, -scores, none), axis=1)[:, :k]
    lines = np.arange(len(order))[:, np.newaxis]
    width = order.shape[1]
    ordered_scores[:, :width] = scores[lines, order]
    ordered_rows[:, :width] = rows[lines, order]
    return ordered_scores, ordered_rows


def best_of(scores: Scores, k: int) -> Hits:
    """The best k of the positive scores of one query, [1, k]; `scores` is float32 [rows]."""
    rows = np.flatnonzero(scores > 0)
    if len(rows) > k:
        # All that tie with the k-th best stay in, so that the tie is decided by row below.
        threshold = np.partition(scores[rows], len(rows) - k)[len(rows) - k]
        rows = rows[scores[rows] >= threshold]
    return order_hits(scores[rows][np.newaxis], rows[np.newaxis], k)


def merge_topk(parts: Sequence[Hits], offsets: Sequence[int], k: int) -> Hits:
    """The best k over shards, ties by global row.

    `parts` holds (scores, rows) of each shard, [queries, any k], row -1 for no hit; row r of a
    shard is the global row `offsets[shard] + r`. Raises ValueError when there are
    not as many offsets as parts, or no parts.
    """
    if not parts or len(parts) != len(offsets):
        raise ValueError(f"{len(parts)} parts and {len(offsets)} offsets: give one for each shard")
    rows = [
        np.where(part_rows == NO_ROW, NO_ROW, part_rows + offset)
        for (_, part_rows), offset in zip(parts, offsets, strict=True)
    ]
    scores = [part_scores for part_scores, _ in parts]
    return order_hits(np.concatenate(scores, axis=1), np.concatenate(rows, axis=1), k)


def searchable_mask(mask: Mask, rows: int) -> Mask:
    """The part of a chunk table's mask that a shard of `rows` searchable rows needs.

    Rows that are not searchable stand behind those that are, so a mask may be longer. Raises
    ValueError when it is no bool array [at least rows].
    """
    if mask.dtype != np.bool_ or mask.ndim != 1 or len(mask) < rows:
        raise ValueError(
            f"a mask is a bool array of at least {rows} rows, not {mask.dtype} {mask.shape}"
        )
    return mask[:rows]


def check_k(k: int) -> None:
    """Raises ValueError when fewer than one hit is asked for."""
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
