"""Stale sources: a declared date of a document that the answer cites is older than a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

from rag_cluster.answer.citations import CheckedAnswer
from rag_cluster.answer.guardrails.verdict import (
    Finding,
    Verdict,
    flagged,
    not_applicable,
    passed,
)
from rag_cluster.answer.sources import Source

Dates = Mapping[str, date]  # by doc_id; a document without a date is not in it


def check_stale(
    checked: CheckedAnswer, sources: Sequence[Source], dates: Dates, now: date, max_age_days: int
) -> Verdict:
    """Flagged where a cited source is more than `max_age_days` old; the value is the oldest age."""
    cited = cited_sources(checked, sources)
    dated = [source for source in cited if source.doc_id in dates]
    if not dated:
        what = "no source is cited" if not cited else "no cited source has a date"
        return not_applicable("stale", what)
    ages = {source.marker: (now - dates[source.doc_id]).days for source in dated}
    oldest = max(ages.values())
    findings = tuple(
        Finding(
            within="source",
            text=dates[source.doc_id].isoformat(),
            note=f"source [{source.marker}] is of {dates[source.doc_id]}, "
            f"{ages[source.marker]} days old",
            marker=source.marker,
            chunk_id=source.parts[0].chunk_id,
        )
        for source in dated
        if ages[source.marker] > max_age_days
    )
    reason = f"the oldest cited source is {oldest} days old"
    if findings:
        return flagged("stale", oldest, f"{reason}, more than {max_age_days}", findings)
    return passed("stale", oldest, reason)


def cited_sources(checked: CheckedAnswer, sources: Sequence[Source]) -> list[Source]:
    """The sources that the answer cites, in their order."""
    markers = {citation.marker for citation in checked.citations}
    return [source for source in sources if source.marker in markers]
