"""Searching an opened collection.

query -> encode -> channels -> fuse -> rerank -> collapse -> hits
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_cluster.answer.channels import Channels, Mask, Scope
from rag_cluster.config import Config, Retrieve
from rag_cluster.errors import UsageError
from rag_cluster.index.filters import parse_filter
from rag_cluster.models.ports import AsyncEncoder, AsyncScorer, Vectors
from rag_cluster.rerank import cascade
from rag_cluster.retrieve.expand import collapse
from rag_cluster.retrieve.fuse import Ranking, alpha_weights, convex, reciprocal_rank_fusion
from rag_cluster.retrieve.route import route
from rag_cluster.schema import Passage, indexed_text
from rag_cluster.storage import ChunkStore, Collection

KEPT_MASKS = 64

Timings = dict[str, float]


@dataclass(frozen=True)
class SearchResult:
    """Hits, best first, and the milliseconds of each part. `notes` say what fell back and why."""

    query: str
    hits: list[Passage]
    timings_ms: Timings
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The object that `search --json` prints."""
        return {
            "query": self.query,
            "hits": [hit_to_json(hit) for hit in self.hits],
            "timings_ms": rounded(self.timings_ms),
            "notes": self.notes,
        }


def hit_to_json(hit: Passage) -> dict[str, Any]:
    """A hit as it stands in JSON."""
    return {
        "rank": hit.rank,
        "score": round(hit.score, 6),
        "chunk_id": hit.chunk_id,
        "doc_id": hit.doc_id,
        "uri": hit.uri,
        "title": hit.title,
        "pages": None if hit.pages is None else list(hit.pages),
        "section": hit.section,
        "text": hit.text,
    }


class Searcher:
    """The channels and models of an opened version, put together to one ranking."""

    def __init__(
        self,
        collection: Collection,
        config: Config,
        encoder: AsyncEncoder,
        scorers: Sequence[tuple[AsyncScorer, int]] = (),
    ) -> None:
        """`scorers` are reranking stages: each with how many candidates it is given."""
        self.store: ChunkStore = collection.chunks()
        self.config = config
        self._fields = collection.fields
        self._encoder = encoder
        self._channels = Channels(collection, self.store, config)
        self._scorers = scorers
        self._scopes: dict[str, Scope] = {}

    def close(self) -> None:
        """Closes connections to servers, where there are any."""
        self._channels.close()

    async def search(
        self, query: str, *, top_k: int | None = None, where: Mapping[str, Any] | None = None
    ) -> SearchResult:
        """The `top_k` best passages among those that the filter `where` lets through.

        Raises UsageError for an empty query and FilterError for a filter that cannot be used.
        """
        query = query.strip()
        if not query:
            raise UsageError("the query is empty: give some words to search for")
        timings: Timings = {}
        limit = top_k or self.config.retrieve.top_k
        with timed(timings, "total"):
            with timed(timings, "filter"):
                scope = self._scope(where)
            ranking = await self._candidates(query, limit, scope, timings)
            if self._scorers:
                with timed(timings, "rerank"):
                    ranking = await self._rerank(query, ranking)
            ranking = self._collapse(ranking).first(limit)
            hits = self.store.passages(ranking.rows, ranking.scores)
        return SearchResult(query, hits, timings)

    async def _candidates(self, query: str, limit: int, scope: Scope, timings: Timings) -> Ranking:
        """Fused rows, enough that collapsing still leaves `limit` where there are so many."""
        config = self.config.retrieve
        vectors = None
        if "dense" in config.channels:
            with timed(timings, "encode"):
                vectors = await self._encoder.encode([query], "query")
        depth = max(config.candidates, limit)
        while True:
            rankings = await self._search_channels(query, vectors, depth, scope, timings)
            with timed(timings, "fuse"):
                fused = fuse(query, rankings, config)
            exhausted = all(len(ranking.rows) < depth for ranking in rankings.values())
            if exhausted or len(self._collapse(fused).rows) >= limit:
                return fused
            depth *= 4

    async def _search_channels(
        self,
        query: str,
        vectors: Vectors | None,
        depth: int,
        scope: Scope,
        timings: Timings,
    ) -> dict[str, Ranking]:
        rankings: dict[str, Ranking] = {}
        if vectors is not None:
            with timed(timings, "dense"):
                rankings["dense"] = self._channels.dense(vectors, depth, scope)
        if "bm25" in self.config.retrieve.channels:
            with timed(timings, "bm25"):
                if self._channels.remote:  # other queries go on while this one waits
                    rankings["bm25"] = await asyncio.to_thread(
                        self._channels.bm25, query, depth, scope
                    )
                else:
                    rankings["bm25"] = self._channels.bm25(query, depth, scope)
        return rankings

    async def _rerank(self, query: str, ranking: Ranking) -> Ranking:
        """The head of the ranking in the order of the reranking stages; the rest stays behind."""
        most = max(count for _, count in self._scorers)
        head = ranking.first(most)
        table = self.store.table.select(["context", "header", "text"]).take(pa.array(head.rows))
        texts = [indexed_text(**row) for row in table.to_pylist()]
        found = await cascade(query, texts, self._scorers)
        rows = np.concatenate([head.rows[found.order], ranking.rows[most:]])
        stages = np.concatenate([found.stages, np.full(len(rows) - len(head.rows), -1)])
        scores = np.concatenate([found.scores, ranking.scores[most:]])
        scores[stages < 0] = -np.arange(np.count_nonzero(stages < 0))
        return Ranking(rows, descending(scores, stages))

    def _collapse(self, ranking: Ranking) -> Ranking:
        return collapse(ranking, self.config.retrieve.collapse, self.store.table)

    def _scope(self, where: Mapping[str, Any] | None) -> Scope:
        """Which searchable rows may be found; the mask is bool [searchable], None for all."""
        name = json.dumps(where, sort_keys=True, default=str)
        if name not in self._scopes:
            table = self.store.table.slice(0, self.store.searchable)
            excluded = list(self.config.retrieve.exclude_roles)
            mask: Mask = ~np.isin(table.column("role").to_numpy(zero_copy_only=False), excluded)
            wanted = parse_filter(where, self._fields)
            if wanted is not None:
                mask &= wanted.mask(table)
            if len(self._scopes) >= KEPT_MASKS:
                self._scopes.pop(next(iter(self._scopes)))
            self._scopes[name] = Scope(None if mask.all() else mask, wanted)
        return self._scopes[name]


def fuse(query: str, rankings: Mapping[str, Ranking], config: Retrieve) -> Ranking:
    """One ranking of the channels', as the configuration says."""
    if len(rankings) == 1:
        return next(iter(rankings.values()))
    match config.fusion:
        case "rrf":
            weights = config.weights.model_dump()
            return reciprocal_rank_fusion(rankings, weights, config.rrf_k)
        case "convex":
            return convex(rankings, alpha_weights(config.alpha))
        case "routed":
            return convex(rankings, route(query, config.alpha))


def descending(scores: NDArray[np.float64], stages: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scores of several stages on one scale: each stage's shifted to lie below the next one's.

    Both are [n], in ranked order: what a later stage saw stands before what it did not see.
    """
    scores = scores.copy()
    for place in np.flatnonzero(np.diff(stages)) + 1:
        scores[place:] += min(0.0, scores[place - 1] - scores[place] - 1.0)
    return scores


@contextmanager
def timed(timings: Timings, name: str) -> Iterator[None]:
    """Adds the milliseconds that the block took."""
    start = time.perf_counter()
    try:
        yield
    finally:
        timings[name] = timings.get(name, 0.0) + (time.perf_counter() - start) * 1000


def rounded(timings: Timings) -> Timings:
    """The timings as they stand in JSON."""
    return {name: round(value, 3) for name, value in timings.items()}
