"""Measures by the names of ir_measures: `nDCG@10`, `R@100`, `RR@10`, `Success@10`, `AP`, ...

nDCG takes the relevance itself as gain (linear, as trec_eval does), not 2^relevance - 1.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from rag_cluster.errors import DatasetError

Item = TypeVar("Item", bound=Hashable)

DEFAULT_MEASURES = "nDCG@10 R@100 RR@10 Success@10"

# Hits asked for a measure without a cutoff, such as AP: TREC's depth.
UNCUT_DEPTH = 1000


class Measures:
    """Parsed measures, in the order in which they were named."""

    def __init__(self, names: str) -> None:
        """Parses names that are separated by white space.

        Raises DatasetError that says which one is not known or not complete.
        """
        self._measures = {name: _parse(name) for name in dict.fromkeys(names.split())}
        if not self._measures:
            raise DatasetError(f"no measures are named; give some, such as {DEFAULT_MEASURES!r}")
        # A measure may parse and still not be computable here; say so before any search is run.
        self.per_query({"query": {"item": 1}}, {"query": ["item"]})

    @property
    def names(self) -> list[str]:
        """The names as they were given."""
        return list(self._measures)

    @property
    def depth(self) -> int:
        """How many documents (or pages) of a ranking the measures look at."""
        cutoffs = [measure.params.get("cutoff") for measure in self._measures.values()]
        return max(UNCUT_DEPTH if cutoff is None else int(cutoff) for cutoff in cutoffs)

    def per_query(
        self,
        qrels: Mapping[str, Mapping[Item, int]],
        rankings: Mapping[str, Sequence[Item]],
    ) -> dict[str, dict[str, float]]:
        """For each measure its value by query, for the queries of `qrels` in their order.

        `qrels` has relevance by query and item, `rankings` items by query, best first, none twice.
        A query without a ranking, or with an empty one, has found nothing: 0.
        """
        import ir_measures

        # Items become strings, in which form the engines take them, and ranks become scores, so
        # that ties between scores are never broken by an engine's own rule.
        keys = _Keys()
        judged = {
            query: {keys.of(item): relevance for item, relevance in items.items()}
            for query, items in qrels.items()
        }
        run = {
            query: {keys.of(item): -float(rank) for rank, item in enumerate(rankings[query])}
            for query in qrels
            if rankings.get(query)
        }
        by_measure = {measure: name for name, measure in self._measures.items()}
        values = {name: dict.fromkeys(qrels, 0.0) for name in self._measures}
        try:
            for metric in ir_measures.iter_calc(list(by_measure), judged, run):
                values[by_measure[metric.measure]][metric.query_id] = float(metric.value)
        except Exception as error:
            raise DatasetError(
                f"ir_measures cannot compute {self.names} here: {' '.join(str(error).split())}"
            ) from error
        return values


def mean(values: Mapping[str, float]) -> float:
    """The mean over queries; 0 without any."""
    return sum(values.values()) / len(values) if values else 0.0


class _Keys:
    """A short string for each item, always the same."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, str] = {}

    def of(self, item: Hashable) -> str:
        return self._keys.setdefault(item, str(len(self._keys)))


def _parse(name: str) -> Any:
    import ir_measures

    try:
        return ir_measures.parse_measure(name)
    except (NameError, ValueError) as error:
        raise DatasetError(
            f"{name!r} is not a measure that ir_measures knows: {error}; "
            f"measures look like {DEFAULT_MEASURES!r}"
        ) from None
