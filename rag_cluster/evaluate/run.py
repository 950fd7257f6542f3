"""One evaluation: ask every judged query, and compare what is found with the qrels.

What searches is a function; it is the query path itself in `evaluate.collection`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rag_cluster.errors import DatasetError
from rag_cluster.evaluate.matching import Item, Judgements
from rag_cluster.evaluate.metrics import Measures, mean
from rag_cluster.schema import Passage

Search = Callable[[str], Awaitable[Sequence[Passage]]]
Ranked = tuple[Item, float]

# Several chunks of a document, or of a page, may be found before the next one.
CHUNKS_PER_ITEM = 3


@dataclass(frozen=True)
class Evaluation:
    """What came out, as means over the judged queries.

    `per_query` has each measure's value by query. `latency_ms` has p50, p95 and p99 of single
    searches, one after another. `rankings` has for each query its documents or pages with the score
    of their best chunk, best first. `notes` say what of the queries and qrels did not count.
    """

    metrics: dict[str, float]
    per_query: dict[str, dict[str, float]]
    queries: int
    latency_ms: dict[str, float]
    rankings: dict[str, list[Ranked]] = field(repr=False)
    notes: list[str] = field(default_factory=list)


def search_depth(measures: Measures) -> int:
    """How many chunks a search should give, so that the measures have enough documents or pages.

    A search may give fewer: then what it did not give counts as not found.
    """
    return measures.depth * CHUNKS_PER_ITEM


async def evaluate(
    search: Search, queries: Mapping[str, str], judgements: Judgements, measures: Measures
) -> Evaluation:
    """Asks each query that has judgements, in order, and measures what is found.

    Hits collapse to documents, or to pages where a query is judged by page, each at the place of
    its best chunk. A query whose search finds nothing counts as 0. Before the first query is timed
    it is asked once untimed, so that loading and first-use costs are no query's latency.

    Raises DatasetError if no query has judgements.
    """
    asked = {query: text for query, text in queries.items() if query in judgements.relevance}
    if not asked:
        raise DatasetError(
            f"none of the {len(queries)} queries (such as {next(iter(queries), None)!r}) is judged "
            f"in the qrels (which judge {next(iter(judgements.relevance), None)!r}, ...)"
        )
    await search(next(iter(asked.values())))
    rankings: dict[str, list[Ranked]] = {}
    seconds: list[float] = []
    for query, text in asked.items():
        start = time.perf_counter()
        hits = await search(text)
        seconds.append(time.perf_counter() - start)
        rankings[query] = rank_items(hits, by_page=query in judgements.paged)
    relevance = {query: judgements.relevance[query] for query in asked}
    items = {query: [item for item, _ in ranked] for query, ranked in rankings.items()}
    per_query = measures.per_query(relevance, items)
    return Evaluation(
        metrics={name: mean(values) for name, values in per_query.items()},
        per_query=per_query,
        queries=len(asked),
        latency_ms=_percentiles(seconds),
        rankings=rankings,
        notes=_notes(queries, judgements),
    )


def rank_items(hits: Sequence[Passage], *, by_page: bool) -> list[Ranked]:
    """Documents, or pages, each at the place and with the score of its first hit.

    A hit that spans several pages counts for each of them: those that are new take the next places
    in page order. So a chunk over a page break is not cheaper than two chunks would be. A hit
    without pages is no page's hit.
    """
    found: dict[Item, float] = {}
    for hit in hits:
        if not by_page:
            found.setdefault((hit.doc_id, None), hit.score)
        elif hit.pages is not None:
            for page in range(hit.pages[0], hit.pages[1] + 1):
                found.setdefault((hit.doc_id, page), hit.score)
    return list(found.items())


def named_run(
    rankings: Mapping[str, Sequence[Ranked]], names: Mapping[str, str]
) -> dict[str, list[tuple[str, int | None, float]]]:
    """The rankings with documents by the names that the qrels give them, else by doc_id."""
    return {
        query: [(names.get(doc_id, doc_id), page, score) for (doc_id, page), score in ranked]
        for query, ranked in rankings.items()
    }


def _percentiles(seconds: Sequence[float]) -> dict[str, float]:
    values = np.percentile(np.array(seconds) * 1000, [50, 95, 99])
    return {name: float(value) for name, value in zip(("p50", "p95", "p99"), values, strict=True)}


def _notes(queries: Mapping[str, str], judgements: Judgements) -> list[str]:
    notes = []
    unjudged = sum(query not in judgements.relevance for query in queries)
    if unjudged:
        notes.append(f"{unjudged} queries have no judgements and were not asked")
    unasked = sum(query not in queries for query in judgements.relevance)
    if unasked:
        notes.append(f"the qrels judge {unasked} queries that are not among the queries")
    if judgements.unmatched:
        notes.append(
            f"{len(judgements.unmatched)} documents of the qrels are not in the collection (such "
            f"as {judgements.unmatched[0]!r}); they count as not found"
        )
    return notes
