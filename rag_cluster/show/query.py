"""Hits, answers and metrics as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from rag_cluster.schema import Passage
from rag_cluster.show import console, table

if TYPE_CHECKING:
    from rag_cluster.answer.guardrails import Verdict
    from rag_cluster.answer.query import Answer, SearchResult
    from rag_cluster.evaluate.collection import CollectionEvaluation
    from rag_cluster.retrieve.transform import Transformed


def hits(result: SearchResult) -> None:
    """The hits of a search, best first, with what was searched in place of the query."""
    out = console()
    for line in [] if result.transformed is None else _searched(result.transformed):
        out.print(Text(line), soft_wrap=True)
    if not result.hits:
        out.print("nothing found")
    by_channel = result.by_channel or [{}] * len(result.hits)
    for passage, places in zip(result.hits, by_channel, strict=True):
        out.print(Text(f"{passage.rank:>3}. {_source(passage)}", style="bold"), soft_wrap=True)
        out.print(Text(f"     {_shortened(passage.text)}"), soft_wrap=True)
        for fact in dict.fromkeys(place.fact for place in places.values() if place.fact):
            out.print(Text(f"     found by: {fact}"), soft_wrap=True)
    for note in result.notes:
        out.print(Text(f"note: {note}"), soft_wrap=True)
    _timings(out, result.timings_ms)


def answer(result: Answer) -> None:
    """An answer with its citations, its confidence, and what the guardrails flag."""
    out = console()
    out.print(Text(result.answer), soft_wrap=True)
    if result.citations:
        out.print()
    for citation in result.citations:
        page = f", page {citation.page}" if citation.page is not None else ""
        quote = _shortened(citation.quote, 140)
        out.print(Text(f"[{citation.marker}] {citation.uri}{page}: “{quote}”"), soft_wrap=True)
    for line in _verdicts(result.guardrails):
        out.print(Text(line), soft_wrap=True)
    said = {note for verdict in result.guardrails for note in verdict.notes}
    for note in result.notes:
        if note not in said:
            out.print(Text(f"note: {note}"), soft_wrap=True)
    _timings(out, result.timings_ms)


def evaluation(result: CollectionEvaluation) -> None:
    """Metrics and latency."""
    out = console()
    rows = table("metric", ">value")
    for name, value in result.metrics.items():
        rows.add_row(name, f"{value:.4f}")
    out.print(rows)
    latency = ", ".join(f"{name} {value:.1f} ms" for name, value in result.latency_ms.items())
    out.print(f"{result.queries:,} queries; search took {latency}", highlight=False)
    for note in result.notes:
        out.print(Text(f"note: {note}"), soft_wrap=True)


def _searched(made: Transformed) -> list[str]:
    lines = [f"searched too: {query}" for query in made.queries[1:]]
    lines += [f"searched too: {_shortened(document)}" for document in made.documents]
    if made.words:
        words = ", ".join(f"{word} {weight:.3f}" for word, weight in made.words.items())
        lines.append(f"bm25 searched: {words}")
    return lines


def _verdicts(verdicts: Sequence[Verdict]) -> Iterator[str]:
    for verdict in verdicts:
        if verdict.rule == "confidence" and not verdict.notes:
            yield f"confidence: {verdict.value}"
        for note in verdict.notes:
            yield f"{verdict.status}, {verdict.rule}: {note}"


def _source(passage: Passage) -> str:
    pages = ""
    if passage.pages is not None:
        first, last = passage.pages
        pages = f", page {first}" if first == last else f", pages {first}-{last}"
    named = " > ".join(part for part in (passage.title, passage.section) if part)
    place = f"{named} ({passage.uri}{pages})" if named else f"{passage.uri}{pages}"
    return f"{place}  {passage.score:.3f}"


def _shortened(text: str, length: int = 240) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1].rstrip() + "…"


def _timings(out: Console, timings: dict[str, float]) -> None:
    parts = ", ".join(f"{name} {value:.1f}" for name, value in timings.items())
    out.print(f"took {parts} (ms)", highlight=False)
