"""THE query path: the command line, the service and the evaluation all run this.

query -> encode -> channels -> fuse -> rerank -> collapse -> hits
question -> hits -> expand -> assemble -> generate -> checked citations -> answer
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_cluster.answer.assemble import Assembly, assemble
from rag_cluster.answer.channels import Channels, Mask, Scope
from rag_cluster.answer.citations import CheckedAnswer, Citation, check_citations
from rag_cluster.answer.generate import Flag, Generator, flag_sources
from rag_cluster.answer.opening import Models, query_config
from rag_cluster.config import Config, Retrieve
from rag_cluster.errors import UsageError
from rag_cluster.index.filters import parse_filter
from rag_cluster.models.ports import AsyncEncoder, AsyncScorer, Vectors
from rag_cluster.models.tokenizer import load_tokenizer
from rag_cluster.rerank import cascade
from rag_cluster.retrieve.expand import collapse, expand
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
            "timings_ms": _rounded(self.timings_ms),
            "notes": self.notes,
        }


@dataclass(frozen=True)
class Answer:
    """An answer whose citations were checked, with the hits that it was made from."""

    question: str
    answer: str
    citations: list[Citation]
    hits: list[Passage]
    timings_ms: Timings
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The object that `ask --json` prints."""
        return {
            "question": self.question,
            "answer": self.answer,
            "citations": [asdict(citation) for citation in self.citations],
            "hits": [hit_to_json(hit) for hit in self.hits],
            "timings_ms": _rounded(self.timings_ms),
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


class Engine:
    """An opened version with what its configuration needs to search and to answer."""

    def __init__(
        self,
        collection: Collection,
        config: Config,
        encoder: AsyncEncoder,
        scorers: Sequence[tuple[AsyncScorer, int]] = (),
        generator: Generator | None = None,
    ) -> None:
        """`scorers` are reranking stages: each with how many candidates it is given."""
        self.collection = collection
        self.config = config
        self.store: ChunkStore = collection.chunks()
        self._encoder = encoder
        self._channels = Channels(collection, self.store, config)
        self._scorers = scorers
        self._generator = generator
        self._scopes: dict[str, Scope] = {}

    @classmethod
    def open(
        cls, path: str | Path, config: Path | None = None, settings: Sequence[str] = ()
    ) -> Engine:
        """The published version, with the configuration that made it and `config` over that.

        Raises CollectionError where the collection was made with another encoder.
        """
        collection = Collection.open(path)
        effective = query_config(collection, config, settings)
        models = Models(effective, collection)
        return cls(collection, effective, models.encoder, models.scorers(), models.generator())

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

    async def ask(
        self, question: str, *, top_k: int | None = None, where: Mapping[str, Any] | None = None
    ) -> Answer:
        """An answer from the passages that a search finds. Raises as `search` does."""
        if self._generator is None:
            raise UsageError("this engine was made without a generator: it can only search")
        start = time.perf_counter()
        found = await self.search(question, top_k=top_k, where=where)
        timings = {name: value for name, value in found.timings_ms.items() if name != "total"}
        with timed(timings, "assemble"):
            assembly = self._assemble(found.hits)
        with timed(timings, "generate"):
            draft = await self._generator.generate(found.query, assembly.sources)
        with timed(timings, "check"):
            checked = check_citations(draft.text, assembly.sources, self._page_of)
        timings["total"] = (time.perf_counter() - start) * 1000
        return Answer(
            question=found.query,
            answer=checked.text,
            citations=list(checked.citations),
            hits=found.hits,
            timings_ms=timings,
            notes=[*found.notes, *notes_of(assembly, checked, flag_sources(assembly.sources))],
        )

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

    def _assemble(self, hits: Sequence[Passage]) -> Assembly:
        config = self.config
        passages = expand(hits, self.store, config.retrieve.expand, config.retrieve.neighbours)
        tokenizer = load_tokenizer(config.embed.model, config.embed.revision)
        return assemble(
            passages,
            budget_tokens=config.answer.budget_tokens,
            count_tokens=tokenizer.count,
            max_passages=config.answer.passages,
            duplicate_threshold=config.answer.duplicate_threshold,
        )

    def _scope(self, where: Mapping[str, Any] | None) -> Scope:
        """Which searchable rows may be found; the mask is bool [searchable], None for all."""
        name = json.dumps(where, sort_keys=True, default=str)
        if name not in self._scopes:
            table = self.store.table.slice(0, self.store.searchable)
            excluded = list(self.config.retrieve.exclude_roles)
            mask: Mask = ~np.isin(table.column("role").to_numpy(zero_copy_only=False), excluded)
            wanted = parse_filter(where, self.collection.fields)
            if wanted is not None:
                mask &= wanted.mask(table)
            if len(self._scopes) >= KEPT_MASKS:
                self._scopes.pop(next(iter(self._scopes)))
            self._scopes[name] = Scope(None if mask.all() else mask, wanted)
        return self._scopes[name]

    def _page_of(self, doc_id: str, offset: int) -> int | None:
        row = self.collection.document(doc_id, ["pages"])
        pages = (row or {}).get("pages") or []
        for page in pages:
            if page["start"] <= offset < page["end"]:
                return int(page["number"])
        return int(pages[-1]["number"]) if pages else None


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


def notes_of(assembly: Assembly, checked: CheckedAnswer, flags: Sequence[Flag]) -> list[str]:
    """What was left out or put right on the way to an answer, in words."""
    notes = []
    if assembly.over_budget:
        notes.append(f"{assembly.over_budget} passages were beyond the token budget")
    if assembly.sentences_cut:
        notes.append(f"{assembly.sentences_cut} sentences were cut to fit the token budget")
    if assembly.duplicates:
        notes.append(f"{assembly.duplicates} passages repeated better ones")
    if checked.removed_markers:
        markers = ", ".join(f"[{marker}]" for marker in checked.removed_markers)
        notes.append(f"citations of sources that do not exist were removed: {markers}")
    notes += [f"no passage supports: {text}" for text in checked.unsupported_sentences]
    notes += [f"source [{flag.marker}] holds an instruction: {flag.text}" for flag in flags]
    return notes


@contextmanager
def timed(timings: Timings, name: str) -> Iterator[None]:
    """Adds the milliseconds that the block took."""
    start = time.perf_counter()
    try:
        yield
    finally:
        timings[name] = timings.get(name, 0.0) + (time.perf_counter() - start) * 1000


def _rounded(timings: Timings) -> Timings:
    return {name: round(value, 3) for name, value in timings.items()}
