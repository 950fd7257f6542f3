"""Searching an opened collection.

query -> transform -> encode -> channels -> chunks -> fuse -> rerank -> collapse -> hits
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_cluster.answer.channels import Lookup, Scope
from rag_cluster.answer.found import Place, SearchResult, Timings, timed
from rag_cluster.answer.opened import Opened
from rag_cluster.config import Config, Retrieve
from rag_cluster.errors import UsageError
from rag_cluster.models.ports import AsyncEncoder
from rag_cluster.rerank import Stage, cascade
from rag_cluster.retrieve.expand import Sources, collapse, to_sources
from rag_cluster.retrieve.fuse import Ranking, alpha_weights, convex, reciprocal_rank_fusion
from rag_cluster.retrieve.route import route
from rag_cluster.retrieve.standing import standing
from rag_cluster.retrieve.transform import Found, Transformed, Transformer, average
from rag_cluster.schema import indexed_text
from rag_cluster.storage import ChunkStore


class Searcher:
    """The channels and models of an opened version, put together to one ranking."""

    def __init__(
        self,
        opened: Opened,
        config: Config,
        encoder: AsyncEncoder,
        stages: Sequence[Stage] = (),
        transformer: Transformer | None = None,
    ) -> None:
        """`stages` are those of reranking. Raises UsageError for a channel that was not opened."""
        self._opened = opened
        self.store: ChunkStore = opened.store
        self.config = config
        self._encoder = encoder
        opened.channels.check(config.retrieve.channels)
        self._stages = stages
        self._transformer = transformer

    async def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        where: Mapping[str, Any] | None = None,
        within_s: float | None = None,
    ) -> SearchResult:
        """The `top_k` best passages among those that the filter `where` lets through.

        `within_s` are the seconds from now that it should take: a transform may have half of them,
        and reranking is cut off before they are over. Raises UsageError for an empty query and
        FilterError for a filter that cannot be used.
        """
        until = None if within_s is None else time.perf_counter() + within_s
        query = query.strip()
        if not query:
            raise UsageError("the query is empty: give some words to search for")
        timings: Timings = {}
        notes: list[str] = []
        limit = top_k or self.config.retrieve.top_k
        with timed(timings, "total"):
            with timed(timings, "filter"):
                cached = {} if where is None else {"filter": self._opened.knows(where)}
                scope = self._opened.scope(where)
            lookups, transformed = await self._lookups(query, scope, timings, until)
            ranking, channels = await self._candidates(lookups, limit, scope, timings)
            if self._stages:
                with timed(timings, "rerank"):
                    ranking = await self._rerank(query, ranking, notes, until)
            ranking = self._collapse(ranking).first(limit)
            hits = self.store.passages(ranking.rows, ranking.scores)
            rankings = {name: found.ranking for name, found in channels.items()}
            stands = standing(rankings, int(ranking.rows[0])) if hits else {}
            places = by_channel(ranking.rows, channels, self.store)
        if transformed is not None and transformed.note is not None:
            notes.insert(0, transformed.note)
        return SearchResult(query, hits, timings, notes, transformed, stands, places, cached)

    async def _lookups(
        self, query: str, scope: Scope, timings: Timings, until: float | None
    ) -> tuple[list[Lookup], Transformed | None]:
        """What is searched for a query, and what the transform made of it, where there is one."""
        transformer = self._transformer
        if transformer is None:
            return await self._encoded([query], (), timings), None
        if not transformer.reads:
            with timed(timings, "transform"):
                made = await transformer(query, most_s=_half_until(until))
            return await self._encoded(made.queries, made.documents, timings), made
        lookups = await self._encoded([query], (), timings)
        plain, _ = await self._candidates(lookups, 1, scope, timings)
        first = plain.first(transformer.reads)
        with timed(timings, "transform"):
            found = Found(self._texts(first.rows), first.scores.tolist())
            made = await transformer(query, found, most_s=_half_until(until))
        return [lookups[0]._replace(words=made.words or None)], made

    async def _encoded(
        self, queries: Sequence[str], documents: Sequence[str], timings: Timings
    ) -> list[Lookup]:
        """A lookup for each query; the first one's vector is averaged with those of documents."""
        if "dense" not in self.config.retrieve.channels:
            return [Lookup(query) for query in queries]
        with timed(timings, "encode"):
            vectors = await self._encoder.encode(list(queries), "query")
            if documents:
                passages = await self._encoder.encode(list(documents), "passage")
                mean = average(vectors[:1], passages, unit=self.config.embed.normalize)
                vectors = np.concatenate([mean, vectors[1:]])
        return [Lookup(query, vectors[i : i + 1]) for i, query in enumerate(queries)]

    async def _candidates(
        self, lookups: Sequence[Lookup], limit: int, scope: Scope, timings: Timings
    ) -> tuple[Ranking, dict[str, Sources]]:
        """Fused rows, enough that collapsing still leaves `limit` where there are so many.

        Beside them what each channel has for the first lookup.
        """
        config = self.config.retrieve
        depth = max(config.candidates, limit)
        least = 0
        if self.store.sources is not None:  # many facts may be of few chunks
            least = max((stage.candidates for stage in self._stages), default=0)
        while True:
            found = await self._opened.channels.search(
                config.channels, lookups, depth, scope, timings
            )
            exhausted = all(len(part.rows) < depth for parts in found for part in parts.values())
            with timed(timings, "fuse"):
                chunks = [
                    {name: to_sources(part, self.store.sources) for name, part in parts.items()}
                    for parts in found
                ]
                fused = fuse_queries(
                    [lookup.query for lookup in lookups],
                    [{name: one.ranking for name, one in parts.items()} for parts in chunks],
                    config,
                )
            enough = len(fused.rows) >= least and len(self._collapse(fused).rows) >= limit
            if exhausted or enough:
                return fused, chunks[0]
            depth *= 4

    def _texts(self, rows: NDArray[np.int64]) -> list[str]:
        """What is indexed of some rows."""
        table = self.store.table.select(["context", "header", "text"]).take(pa.array(rows))
        return [indexed_text(**row) for row in table.to_pylist()]

    async def _rerank(
        self, query: str, ranking: Ranking, notes: list[str], until: float | None
    ) -> Ranking:
        """The head of the ranking in the order of the reranking stages; the rest stays behind."""
        most = max(stage.candidates for stage in self._stages)
        limit = self.config.rerank.deadline_ms
        limits = [] if limit is None else [limit / 1e3]
        if until is not None:  # a tenth of what is left is kept for what comes after it
            limits.append(max(0.0, until - time.perf_counter()) * 0.9)
        head = ranking.first(most)
        found = await cascade(
            query,
            self._texts(head.rows),
            self._stages,
            min(limits, default=None),
        )
        notes += found.notes
        if (found.stages < 0).all():
            return ranking
        rows = np.concatenate([head.rows[found.order], ranking.rows[most:]])
        stages = np.concatenate([found.stages, np.full(len(rows) - len(head.rows), -1)])
        scores = np.concatenate([found.scores, ranking.scores[most:]])
        scores[stages < 0] = -np.arange(np.count_nonzero(stages < 0))
        return Ranking(rows, descending(scores, stages))

    def _collapse(self, ranking: Ranking) -> Ranking:
        return collapse(ranking, self.config.retrieve.collapse, self.store.table)


def _half_until(until: float | None) -> float | None:
    """Half of the seconds that are left; None where there is no limit."""
    return None if until is None else max(0.0, until - time.perf_counter()) / 2


def fuse_queries(
    queries: Sequence[str], found: Sequence[Mapping[str, Ranking]], config: Retrieve
) -> Ranking:
    """One ranking of several queries', each fused over its channels, by reciprocal rank."""
    fused = [fuse(query, parts, config) for query, parts in zip(queries, found, strict=True)]
    if len(fused) == 1:
        return fused[0]
    return reciprocal_rank_fusion(
        {str(number): ranking for number, ranking in enumerate(fused)}, k=config.rrf_k
    )


def fuse(query: str, rankings: Mapping[str, Ranking], config: Retrieve) -> Ranking:
    """One ranking of the channels', as the configuration says."""
    if len(rankings) == 1:
        return next(iter(rankings.values()))
    weights = config.weights.model_dump()
    match config.fusion:
        case "rrf":
            return reciprocal_rank_fusion(rankings, weights, config.rrf_k)
        case "convex":
            return convex(rankings, alpha_weights(config.alpha, rankings.keys(), weights))
        case "routed":
            alpha = route(query, config.alpha)
            return convex(rankings, alpha_weights(alpha, rankings.keys(), weights))


def by_channel(
    rows: NDArray[np.int64], channels: Mapping[str, Sources], store: ChunkStore
) -> list[dict[str, Place]]:
    """For each of the rows (int64 [n]) its place in the rankings that have it."""
    places: list[dict[str, Place]] = [{} for _ in rows]
    wanted = {int(row): number for number, row in enumerate(rows)}
    for name, (ranking, found) in channels.items():
        for at in np.flatnonzero(np.isin(ranking.rows, rows)):
            row = int(ranking.rows[at])
            fact = None if found[at] == row else store.table["text"][int(found[at])].as_py()
            places[wanted[row]][name] = Place(int(at) + 1, float(ranking.scores[at]), fact)
    return places


def descending(scores: NDArray[np.float64], stages: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scores of several stages on one scale: each stage's shifted to lie below the next one's.

    Both are [n], in ranked order: what a later stage saw stands before what it did not see.
    """
    scores = scores.copy()
    for place in np.flatnonzero(np.diff(stages)) + 1:
        scores[place:] += min(0.0, scores[place - 1] - scores[place] - 1.0)
    return scores
