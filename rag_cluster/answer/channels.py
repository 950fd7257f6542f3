"""The channels of an opened collection: each searches all shards and gives one ranking."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rag_cluster.answer.found import Timings, timed
from rag_cluster.config import Config
from rag_cluster.errors import CollectionError, UsageError
from rag_cluster.index.filters import Filter
from rag_cluster.models.ports import Vectors
from rag_cluster.models.together import together
from rag_cluster.retrieve.fuse import Ranking
from rag_cluster.storage import ChunkStore, Collection

if TYPE_CHECKING:
    from rag_cluster.index.elastic_search import ElasticIndex
    from rag_cluster.index.sharded import DenseShards
    from rag_cluster.index.sparse import SparseShard
    from rag_cluster.models.sparse import SparseEncoder, SparseVector

KEPT_QUERIES = 64

NOTHING = Ranking(np.empty(0, np.int64), np.empty(0, np.float64))

Mask = NDArray[np.bool_]


class Scope(NamedTuple):
    """What may be found: `mask` of the searchable rows (None = all), made of `wanted` and roles.

    `where` is the filter as it was asked for.
    """

    mask: Mask | None = None
    wanted: Filter | None = None
    where: Mapping[str, Any] | None = None


class Lookup(NamedTuple):
    """One thing that the channels are asked.

    `vectors` is the query's, float32 [1, dim], for dense; `words` are texts with weights that bm25
    is asked in place of the query.
    """

    query: str
    vectors: Vectors | None = None
    words: Mapping[str, float] | None = None


class Searches(Protocol):
    """The channels of a version, wherever they are searched."""

    def check(self, names: Sequence[str]) -> None:
        """Raises UsageError for a channel that was not opened."""

    async def search(
        self, names: Sequence[str], lookups: Sequence[Lookup], k: int, scope: Scope,
        timings: Timings,
    ) -> list[dict[str, Ranking]]:  # fmt: skip
        """For each lookup the k best rows of each channel; adds the milliseconds of each."""

    def close(self) -> None:
        """Closes connections to servers, where there are any."""


class Channels:
    """Dense, lexical and sparse shards of one version, and the rows of the store that they mean.

    With `shards` only those are opened: a service divides them. A server that all shards share is
    asked by whoever has the first one.
    """

    def __init__(
        self,
        collection: Collection,
        store: ChunkStore,
        config: Config,
        shards: Sequence[int] | None = None,
    ) -> None:
        self._store = store
        self._names = config.retrieve.channels
        shards = range(collection.shards) if shards is None else shards
        self._first = 0 in shards
        self._rows = [store.rows[shard] for shard in shards]
        self._dense: DenseShards | None = None
        self._mine = NOTHING.rows  # the searchable rows of these shards, rising
        self._lexical: list[Any] = []
        self._elastic: ElasticIndex | None = None
        self._exclude_roles = config.retrieve.exclude_roles
        if "dense" in config.retrieve.channels:
            from rag_cluster.index.factory import with_measured
            from rag_cluster.index.sharded import DenseShards

            found = [rows[rows < store.searchable] for rows in self._rows]
            self._mine = np.sort(np.concatenate([NOTHING.rows, *found]))
            self._dense = DenseShards.open(
                [collection.local_path("dense", i) for i in shards],
                with_measured(config.index.dense, collection.manifest["dense"]),
                [np.searchsorted(self._mine, rows) for rows in found],
            )
        self._sparse: list[SparseShard] = []
        self._config = config
        self._manifest = collection.manifest
        self._read: dict[str, SparseVector] = {}
        self._reading = threading.Lock()
        channels = config.retrieve.channels
        served = collection.manifest["lexical"]["kind"] == "elasticsearch"
        if "bm25" in channels or ("splade" in channels and served):
            self._open_lexical(collection, config, shards)
        if "splade" in channels and not served:
            from rag_cluster.index.sparse import SparseShard

            self._sparse = [SparseShard.open(collection.local_path("sparse", i)) for i in shards]

    def _open_lexical(self, collection: Collection, config: Config, shards: Sequence[int]) -> None:
        made_by = collection.manifest["lexical"]["kind"]
        if made_by != config.index.lexical.kind:
            raise CollectionError(
                f"{collection.path} was made with index.lexical.kind = {made_by!r}, but this "
                f"configuration says {config.index.lexical.kind!r}: search it with what made it, "
                "or ingest again"
            )
        if made_by == "elasticsearch":
            from rag_cluster.index.elastic_search import ElasticIndex

            self._elastic = ElasticIndex.open(collection.manifest, config)
        else:
            from rag_cluster.index.lexical import LexicalShard

            self._lexical = [
                LexicalShard.open(collection.local_path("lexical", i), config.index.lexical)
                for i in shards
            ]

    def check(self, names: Sequence[str]) -> None:
        """Raises UsageError for a channel that was not opened."""
        check_opened(names, self._names)

    async def search(
        self, names: Sequence[str], lookups: Sequence[Lookup], k: int, scope: Scope,
        timings: Timings,
    ) -> list[dict[str, Ranking]]:  # fmt: skip
        """For each lookup the k best rows of each channel; adds the milliseconds of each."""
        found: list[dict[str, Ranking]] = [{} for _ in lookups]
        if "dense" in names:
            with timed(timings, "dense"):
                for parts, lookup in zip(found, lookups, strict=True):
                    assert lookup.vectors is not None  # it was encoded for this channel
                    parts["dense"] = self.dense(lookup.vectors, k, scope)
        if "bm25" in names:
            with timed(timings, "bm25"):
                asked = [lookup.words or lookup.query for lookup in lookups]
                if self._elastic is not None:  # other queries go on while this one waits
                    waiting = (asyncio.to_thread(self.bm25, one, k, scope) for one in asked)
                    rankings = await together(waiting)
                else:
                    rankings = [self.bm25(one, k, scope) for one in asked]
                for parts, ranking in zip(found, rankings, strict=True):
                    parts["bm25"] = ranking
        if "splade" in names:
            with timed(timings, "splade"):  # the model reads the query in it
                waiting = (
                    asyncio.to_thread(self.splade, lookup.query, k, scope) for lookup in lookups
                )
                for parts, ranking in zip(found, await together(waiting), strict=True):
                    parts["splade"] = ranking
        return found

    def close(self) -> None:
        """Closes connections to a server."""
        if self._elastic is not None:
            self._elastic.close()

    def dense(self, vectors: Vectors, k: int, scope: Scope) -> Ranking:
        """The k nearest chunks to a query vector float32 [1, dim]."""
        assert self._dense is not None  # the channel is asked only where it is configured
        mask = None if scope.mask is None else scope.mask[self._mine]
        scores, rows = self._dense.search(vectors, k, mask)
        found = Ranking.of(rows[0], scores[0])
        return Ranking(self._mine[found.rows], found.scores)

    def bm25(self, query: str | Mapping[str, float], k: int, scope: Scope) -> Ranking:
        """The k best chunks by BM25, all with a score above 0, for a text or texts with weights."""
        if self._elastic is not None:
            if not self._first:
                return NOTHING
            found, scores = self._elastic.search(query, k, scope.wanted, self._exclude_roles)
            return Ranking(self._rows_of(found), scores)
        return _merge(
            (
                (
                    rows,
                    shard.search([query], k, part)
                    if isinstance(query, str)
                    else shard.search_words(query, k, part),
                )
                for shard, rows, part in self._shards(self._lexical, scope.mask)
            ),
            k,
        )

    def splade(self, query: str, k: int, scope: Scope) -> Ranking:
        """The k best chunks by the inner product of sparse vectors, all with a score above 0."""
        if self._elastic is not None and not self._first:
            return NOTHING
        vector = self._sparse_vector(query)
        if self._elastic is not None:
            found, scores = self._elastic.search_sparse(
                vector, k, scope.wanted, self._exclude_roles
            )
            return Ranking(self._rows_of(found), scores)
        return _merge(
            (
                (rows, shard.search([vector], k, part))
                for shard, rows, part in self._shards(self._sparse, scope.mask)
            ),
            k,
        )

    @functools.cached_property
    def _sparse_encoder(self) -> SparseEncoder:
        """Loaded with the first query. Raises CollectionError where it is not the ingest's own."""
        from rag_cluster.models.sparse import load_sparse_encoder

        encoder = load_sparse_encoder(self._config.sparse)
        made = self._manifest["encoder"]["sparse"]["revision"]
        if encoder.revision != made:
            raise CollectionError(
                f"the sparse vectors were made with the weights {made!r} of sparse.model, and "
                f"these are {encoder.revision!r}: search with what made them, or ingest again"
            )
        return encoder

    def _sparse_vector(self, query: str) -> SparseVector:
        """Kept for a while: a search that looks for more hits asks again."""
        with self._reading:
            if query not in self._read:
                if len(self._read) >= KEPT_QUERIES:
                    self._read.pop(next(iter(self._read)))
                (self._read[query],) = self._sparse_encoder.encode([query], "query")
            return self._read[query]

    def _rows_of(self, chunk_ids: Sequence[str]) -> NDArray[np.int64]:
        try:
            rows = [self._store.row_of(chunk_id) for chunk_id in chunk_ids]
        except KeyError as error:
            raise CollectionError(
                f"the server's index holds chunk {error}, which the collection does not have: "
                "ingest again"
            ) from None
        return np.array(rows, np.int64)

    def _shards(
        self, shards: Sequence[Any], mask: Mask | None
    ) -> Iterator[tuple[Any, NDArray[np.int64], Mask | None]]:
        for shard, all_rows in zip(shards, self._rows, strict=True):
            rows = all_rows[all_rows < self._store.searchable]
            yield shard, rows, None if mask is None else mask[rows]


def check_opened(names: Sequence[str], opened: Sequence[str]) -> None:
    """Raises UsageError for a channel that was not opened."""
    for name in names:
        if name not in opened:
            raise UsageError(f"the channel {name!r} was not opened: there are {', '.join(opened)}")


def merged(rankings: Sequence[Ranking], k: int) -> Ranking:
    """The k best rows of rankings that have no row in common; ties by row."""
    rows = np.concatenate([NOTHING.rows, *(ranking.rows for ranking in rankings)])
    scores = np.concatenate([NOTHING.scores, *(ranking.scores for ranking in rankings)])
    order = np.lexsort((rows, -scores))[:k]
    return Ranking(rows[order], scores[order])


def _merge(
    parts: Iterator[tuple[NDArray[np.int64], tuple[NDArray[np.float32], NDArray[np.int64]]]], k: int
) -> Ranking:
    """One ranking of the shards' answers: best first, ties by the store's row."""
    found = []
    for store_rows, (shard_scores, shard_rows) in parts:
        ranking = Ranking.of(shard_rows[0], shard_scores[0])
        found.append(Ranking(store_rows[ranking.rows], ranking.scores.astype(np.float64)))
    return merged(found, k)
