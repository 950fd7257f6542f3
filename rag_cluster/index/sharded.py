"""All dense shards of a version, searched as one index.

Where the shards have inverted lists, a query is compared with the centroids once, the candidates of
all shards are put into one order, and only the best of these are refined. So k shards look at the
same candidates as one shard, give the same hits, and cost little more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rag_cluster.config import Dense
from rag_cluster.index.dense import EXACT_ROWS, TIE_MARGIN, DenseShard, Vectors, checked_vectors
from rag_cluster.index.factory import default_k_factor, default_nprobe
from rag_cluster.index.lists import Assigned
from rag_cluster.index.topk import NO_ROW, Hits, Mask, Rows, Scores, check_k, no_hits, order_hits

# Floats of refinement vectors that are decoded at once: 64 MiB.
_DECODED = 1 << 24


class DenseShards:
    """Shards that were filled from one trained index. May be used by several threads at once.

    A hit's row is its row in the order of the whole collection, which `rows` gives.
    """

    def __init__(
        self,
        shards: Sequence[DenseShard],
        config: Dense,
        rows: Sequence[Rows] | None = None,
        *,
        exact_rows: int = EXACT_ROWS,
    ) -> None:
        """`rows[shard]` is int64 [size of the shard]; without them shards stand one after another.

        The rows of all shards are a permutation of 0 to size - 1, rising within a shard. A filter
        that leaves no more than `exact_rows` is answered by exact scores.
        """
        self._shards = list(shards)
        self._config = config
        self._ends = np.cumsum([0, *(shard.size for shard in shards)])
        self._row_of = None if rows is None else np.concatenate([np.empty(0, np.int64), *rows])
        if self._row_of is not None and len(self._row_of) != self.size:
            raise ValueError(f"{len(self._row_of)} rows are named for {self.size} vectors")
        self._place_of = None
        if self._row_of is not None:
            self._place_of = np.empty_like(self._row_of)
            self._place_of[self._row_of] = np.arange(self.size)
        self._exact_rows = exact_rows
        lists = [shard.lists for shard in shards]
        self._lists = [part for part in lists if part is not None]
        if len(self._lists) < len(lists):
            self._lists = []

    @classmethod
    def open(
        cls, paths: Sequence[Path], config: Dense, rows: Sequence[Rows] | None = None
    ) -> DenseShards:
        """The shards of files that `dense.write` made, memory-mapped. Raises CollectionError."""
        return cls([DenseShard.open(path, config) for path in paths], config, rows)

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self._ends[-1])

    @property
    def list_count(self) -> int:
        """The number of inverted lists; 0 where the index has none."""
        return self._shards[0].list_count if self._shards else 0

    @property
    def probes(self) -> int | None:
        """The lists that a query without a filter visits; None where there are none."""
        lists = self.list_count
        return min(lists, self._config.nprobe or default_nprobe(lists)) if lists else None

    @property
    def k_factor(self) -> int | None:
        """The candidates per hit that are refined; None where nothing is."""
        refined = self._shards and self._shards[0].refined
        return default_k_factor(self._config) if refined else None

    def search(self, queries: Vectors, k: int, mask: Mask | None = None) -> Hits:
        """The best k rows for each query: (float32 [n, k], int64 [n, k]), -inf and -1 beyond them.

        `queries` is float32 [n, dim]; `mask` is bool [rows] and may go on for rows that are not
        searchable. All k are found whenever so many rows are allowed; ties are ordered by row. In
        a batch of 20 and more FAISS computes the centroids' distances by matrix products, whose
        last bits may let other candidates in than for a query alone.
        Raises CollectionError for queries of other dimensions, ModelError for NaN in them.
        """
        check_k(k)
        if not self._shards:
            return no_hits(len(queries), k)
        queries = checked_vectors(queries)
        self._shards[0].check(queries)
        masks = self._masks(mask)
        allowed = self.size if mask is None else sum(int(m.sum()) for m in masks if m is not None)
        if not allowed or not len(queries):
            return no_hits(len(queries), k)
        if not self._lists or (mask is not None and allowed <= self._exact_rows):
            return self._apart(queries, k, masks)
        lists = self.list_count
        probes = int(np.ceil((self.probes or lists) * self.size / allowed))  # a filter thins them
        with self._shards[0].threads(len(queries)):
            hits = self._probe(queries, k, masks, allowed, min(lists, probes))
            self._complete(
                hits,
                min(k, allowed),
                lambda short: self._probe(queries[short], k, masks, allowed, lists),
            )
        # Fast scan may still leave some out; a shard then goes on to the vectors themselves.
        self._complete(hits, min(k, allowed), lambda short: self._apart(queries[short], k, masks))
        return hits

    @staticmethod
    def _complete(hits: Hits, k: int, search: Callable[[Mask], Hits]) -> None:
        """Puts what `search` finds in the place of lines with fewer than k hits."""
        scores, rows = hits
        short = np.count_nonzero(rows != NO_ROW, axis=1) < k
        if short.any():
            scores[short], rows[short] = search(short)

    def _masks(self, mask: Mask | None) -> list[Mask | None]:
        if mask is None:
            return [None] * len(self._shards)
        if len(mask) < self.size:
            raise ValueError(
                f"a mask is a bool array of at least {self.size} rows, not of {mask.shape}"
            )
        inside = mask[: self.size] if self._row_of is None else mask[self._row_of]
        return list(np.split(inside, self._ends[1:-1]))

    def _apart(self, queries: Vectors, k: int, masks: Sequence[Mask | None]) -> Hits:
        parts = [s.search(queries, k, m) for s, m in zip(self._shards, masks, strict=True)]
        return self._merged(parts, k)

    def _probe(
        self,
        queries: Vectors,
        k: int,
        masks: Sequence[Mask | None],
        allowed: int,
        probes: int,
    ) -> Hits:
        assigned = self._lists[0].assign(queries, probes)
        more = 1
        while True:
            wanted = min(allowed, more * (k + TIE_MARGIN))
            if self.k_factor is None:
                hits = self._candidates(queries, assigned, wanted, masks)
            else:
                count = min(allowed, max(wanted, more * k * self.k_factor))
                hits = self._refined(queries, assigned, count, wanted, masks)
            if wanted >= allowed or not _tied(hits, k):
                return order_hits(*hits, k)
            more *= 4

    def _refined(
        self,
        queries: Vectors,
        assigned: Assigned,
        count: int,
        wanted: int,
        masks: Sequence[Mask | None],
    ) -> Hits:
        """The `wanted` best by refined scores, of the `count` best by the codes' scores."""
        step = max(1, _DECODED // (count * queries.shape[1]))
        parts = []
        for start in range(0, len(queries), step):
            some = queries[start : start + step]
            visited = assigned.of(slice(start, start + step))
            rows = self._candidates(some, visited, count, masks)[1]
            parts.append(order_hits(self._exact(some, rows), rows, wanted))
        return np.concatenate([s for s, _ in parts]), np.concatenate([r for _, r in parts])

    def _candidates(
        self,
        queries: Vectors,
        assigned: Assigned,
        count: int,
        masks: Sequence[Mask | None],
        fetch: int = 0,
    ) -> Hits:
        """The best `count` over all shards by the codes' scores, ties by row.

        A shard is first asked for twice its fair share, `fetch`. Where all of it is among the
        best, or its last ties with the border, the shard may have more, and is asked again.
        """
        largest = int(np.diff(self._ends).max())
        share = 2 * count // len(self._shards) if len(self._shards) > 1 else count
        fetch = min(largest, max(fetch, share + TIE_MARGIN))
        parts = [
            lists.candidates(queries, assigned, fetch, mask)
            for lists, mask in zip(self._lists, masks, strict=True)
        ]
        hits = self._merged(parts, count)
        border = hits[0][:, -1]
        cut = [(scores[:, -1] >= border) & (rows[:, -1] != NO_ROW) for scores, rows in parts]
        again = np.logical_or.reduce(cut)
        if fetch < largest and again.any():
            visited = assigned.of(again)
            found = self._candidates(queries[again], visited, count, masks, 4 * fetch)
            hits[0][again], hits[1][again] = found
        return hits

    def _merged(self, parts: Sequence[Hits], k: int) -> Hits:
        rows = []
        for (_, part), start in zip(parts, self._ends, strict=False):
            row = part + start if self._row_of is None else self._row_of[part + start * (part >= 0)]
            row[part == NO_ROW] = NO_ROW
            rows.append(row)
        scores = [part for part, _ in parts]
        return order_hits(np.concatenate(scores, axis=1), np.concatenate(rows, axis=1), k)

    def _exact(self, queries: Vectors, rows: Rows) -> Scores:
        """The refined scores float32 [n, c] of rows int64 [n, c]."""
        scores = np.full(rows.shape, -np.inf, dtype=np.float32)
        places = rows if self._place_of is None else self._place_of[rows]
        homes: NDArray[np.int64] = np.searchsorted(self._ends, places, side="right") - 1
        line, column = np.nonzero(rows != NO_ROW)
        home = homes[line, column]
        order = np.argsort(home, kind="stable")  # shard by shard
        line, column, home = line[order], column[order], home[order]
        inside = places[line, column] - self._ends[home]
        vectors = np.empty((len(line), queries.shape[1]), dtype=np.float32)
        bounds = np.searchsorted(home, range(len(self._lists) + 1))
        for lists, (low, high) in zip(self._lists, itertools.pairwise(bounds), strict=True):
            if low < high:
                lists.decode(inside[low:high], vectors[low:high])
        scores[line, column] = self._lists[0].compare(queries[line], vectors)
        return scores


def _tied(hits: Hits, k: int) -> bool:
    """Whether the k-th hit ties with the last one, so that more may tie with it."""
    scores, rows = hits
    border = scores[:, min(k, scores.shape[1]) - 1]
    return bool(((border == scores[:, -1]) & (rows[:, -1] != NO_ROW)).any())
