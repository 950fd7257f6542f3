"""Evaluating a collection on disk, over the query path that also serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rag_cluster.answer.query import Engine
from rag_cluster.evaluate.datasets import read_qrels, read_queries, write_run
from rag_cluster.evaluate.matching import match
from rag_cluster.evaluate.metrics import DEFAULT_MEASURES, Measures
from rag_cluster.evaluate.run import Evaluation, evaluate, named_run, search_depth
from rag_cluster.schema import Passage


@dataclass(frozen=True)
class CollectionEvaluation:
    """Means over the judged queries, and what did not count (`notes`)."""

    metrics: dict[str, float]
    queries: int
    latency_ms: dict[str, float]
    notes: list[str]
    per_query: dict[str, dict[str, float]]

    def to_json(self) -> dict[str, Any]:
        """The object that `evaluate --json` prints."""
        return {
            "metrics": self.metrics,
            "queries": self.queries,
            "latency_ms": {name: round(value, 3) for name, value in self.latency_ms.items()},
            "notes": self.notes,
        }


async def evaluate_collection(
    collection: str | Path,
    queries: str | Path,
    qrels: str | Path,
    metrics: str = DEFAULT_MEASURES,
    *,
    config: Path | None = None,
    settings: Sequence[str] = (),
    run: str | Path | None = None,
) -> CollectionEvaluation:
    """Asks the published version every judged query, and measures the hits against the qrels.

    `run` is where a TREC run is written. What is wrong with the measures, queries or qrels is said
    before a model is loaded. Raises DatasetError, CollectionError and ConfigError.
    """
    measures = Measures(metrics)
    texts = read_queries(queries)
    lines = read_qrels(qrels)
    engine = Engine.open(collection, config, settings)
    documents = engine.collection.documents(["doc_id", "uri"]).to_pydict()
    judgements = match(lines, zip(documents["doc_id"], documents["uri"], strict=True))
    depth = search_depth(measures)

    fallbacks: dict[str, list[str]] = {}

    async def search(query: str) -> Sequence[Passage]:
        found = await engine.search(query, top_k=depth)
        fallbacks[query] = found.notes
        return found.hits

    result: Evaluation = await evaluate(search, texts, judgements, measures)
    if run is not None:
        write_run(run, named_run(result.rankings, judgements.names))
    notes = [*result.notes, *_summed_up(fallbacks)]
    return CollectionEvaluation(
        result.metrics, result.queries, result.latency_ms, notes, result.per_query
    )


def _summed_up(fallbacks: Mapping[str, Sequence[str]]) -> list[str]:
    """How many searches did not run as they were configured, with an example."""
    noted = [notes[0] for notes in fallbacks.values() if notes]
    if not noted:
        return []
    return [f"{len(noted)} of {len(fallbacks)} searches fell back, such as: {noted[0]}"]
