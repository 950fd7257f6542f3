"""What a search found: hits, where each channel has them, and how long each part took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rag_cluster.retrieve.transform import Transformed
from rag_cluster.schema import Passage

Timings = dict[str, float]


class Place(NamedTuple):
    """Where one channel has a hit: its rank from 1, and the score that it gave.

    `fact` is the sentence that was found, where the hit is a chunk that was rewritten as facts.
    """

    rank: int
    score: float
    fact: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The place as it stands in JSON."""
        found = {} if self.fact is None else {"fact": self.fact}
        return {"rank": self.rank, "score": round(self.score, 6)} | found


@dataclass(frozen=True)
class SearchResult:
    """Hits, best first, and the milliseconds of each part.

    `notes` say what fell back and why; `transformed` what was searched in place of the query;
    `standing` how far the best hit stands out in each channel (`retrieve.standing`). `by_channel`
    has for each hit the channels that found it for the query itself. `cached` says of each cache
    that was asked whether it had the answer.
    """

    query: str
    hits: list[Passage]
    timings_ms: Timings
    notes: list[str] = field(default_factory=list)
    transformed: Transformed | None = None
    standing: Mapping[str, float] = field(default_factory=dict)
    by_channel: Sequence[Mapping[str, Place]] = ()
    cached: Mapping[str, bool] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The object that `search --json` prints."""
        return {
            "query": self.query,
            "hits": hits_to_json(self.hits, self.by_channel),
            "timings_ms": rounded(self.timings_ms),
            "transform": None if self.transformed is None else self.transformed.to_json(),
            "notes": self.notes,
        }


def hits_to_json(
    hits: Sequence[Passage], by_channel: Sequence[Mapping[str, Place]] = ()
) -> list[dict[str, Any]]:
    """Hits as they stand in JSON; `by_channel` is that of the search, where it is known."""
    return [
        {
            "rank": hit.rank,
            "score": round(hit.score, 6),
            "channels": {name: place.to_json() for name, place in places.items()},
            "chunk_id": hit.chunk_id,
            "doc_id": hit.doc_id,
            "uri": hit.uri,
            "title": hit.title,
            "pages": None if hit.pages is None else list(hit.pages),
            "section": hit.section,
            "text": hit.text,
        }
        for hit, places in zip(hits, by_channel or [{}] * len(hits), strict=True)
    ]


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
