"""The channels of an opened collection: each searches all shards and gives one ranking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_cluster.config import Config
from rag_cluster.models.ports import Vectors
from rag_cluster.retrieve.fuse import Ranking
from rag_cluster.storage import ChunkStore, Collection

Mask = NDArray[np.bool_]


class Channels:
    """Dense and lexical shards of one version, and the rows of the chunk store they stand for."""

    def __init__(self, collection: Collection, store: ChunkStore, config: Config) -> None:
        self._store = store
        shards = range(collection.shards)
        self._dense: list[Any] = []
        self._lexical: list[Any] = []
        if "dense" in config.retrieve.channels:
            from rag_cluster.index.dense import DenseShard

            dense = config.index.dense
            self._dense = [
                DenseShard.open(collection.local_path("dense", i), dense) for i in shards
            ]
        if "bm25" in config.retrieve.channels:
            from rag_cluster.index.lexical import LexicalShard

            self._lexical = [
                LexicalShard.open(collection.local_path("lexical", i), config.index.lexical)
                for i in shards
            ]

    def dense(self, vectors: Vectors, k: int, mask: Mask | None) -> Ranking:
        """The k nearest chunks to a query vector float32 [1, dim]."""
        return _merge(
            (
                (rows, shard.search(vectors, k, part))
                for shard, rows, part in self._shards(self._dense, mask)
            ),
            k,
        )

    def bm25(self, query: str, k: int, mask: Mask | None) -> Ranking:
        """The k best chunks by BM25, all with a score above 0."""
        return _merge(
            (
                (rows, shard.search([query], k, part))
                for shard, rows, part in self._shards(self._lexical, mask)
            ),
            k,
        )

    def _shards(
        self, shards: Sequence[Any], mask: Mask | None
    ) -> Iterator[tuple[Any, NDArray[np.int64], Mask | None]]:
        for shard, all_rows in zip(shards, self._store.rows, strict=True):
            rows = all_rows[all_rows < self._store.searchable]
            yield shard, rows, None if mask is None else mask[rows]


def _merge(
    parts: Iterator[tuple[NDArray[np.int64], tuple[NDArray[np.float32], NDArray[np.int64]]]], k: int
) -> Ranking:
    """One ranking of the shards' answers: best first, ties by the store's row."""
    rows = [np.empty(0, np.int64)]
    scores = [np.empty(0, np.float64)]
    for store_rows, (shard_scores, shard_rows) in parts:
        ranking = Ranking.of(shard_rows[0], shard_scores[0])
        rows.append(store_rows[ranking.rows])
        scores.append(ranking.scores.astype(np.float64))
    all_rows, all_scores = np.concatenate(rows), np.concatenate(scores)
    order = np.lexsort((all_rows, -all_scores))[:k]
    return Ranking(all_rows[order], all_scores[order])
