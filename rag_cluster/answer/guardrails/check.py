"""All rules on one answer, and what the configuration makes of their verdicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from rag_cluster.answer.citations import CheckedAnswer, Citation
from rag_cluster.answer.guardrails.confidence import check_confidence
from rag_cluster.answer.guardrails.coverage import check_coverage
from rag_cluster.answer.guardrails.grounding import check_grounding
from rag_cluster.answer.guardrails.injection import check_injection
from rag_cluster.answer.guardrails.staleness import Dates, check_stale
from rag_cluster.answer.guardrails.temporal import check_temporal
from rag_cluster.answer.guardrails.verdict import Rule, Status, Verdict, not_applicable
from rag_cluster.answer.sources import Source
from rag_cluster.config import Guardrails
from rag_cluster.schema import Passage


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What is known of the search that an answer rests on.

    `standing` is that of the best hit (`retrieve.standing`); `dates` are the documents' declared
    dates by doc_id; `language` is the index's.
    """

    hits: Sequence[Passage]
    standing: Mapping[str, float]
    dates: Dates
    language: str = "english"


@dataclass(frozen=True, slots=True)
class Guarded:
    """The answer as it may be shown: as it was, or a sentence that says what withholds it."""

    text: str
    citations: tuple[Citation, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def notes(self) -> list[str]:
        """What the rules found, in words."""
        return [note for verdict in self.verdicts for note in verdict.notes]


def guard(
    config: Guardrails,
    question: str,
    checked: CheckedAnswer,
    sources: Sequence[Source],
    retrieved: Retrieved,
) -> Guarded:
    """The verdicts of all rules that are not off, and the answer unless one of them blocks it.

    A rule that is set to `block` blocks where it would otherwise flag. What a withheld answer said
    is not in the verdicts either, but for the numbers in a reason. An answer that states nothing
    ("Nothing in the collection answers this question.") is never withheld.
    """
    found = tuple(_verdicts(config, question, checked, sources, retrieved))
    blocking: set[Rule] = {
        verdict.rule
        for verdict in found
        if verdict.status == "flagged" and getattr(config, verdict.rule) == "block"
    }
    if not blocking or not checked.claims:
        return Guarded(checked.text, checked.citations, found)
    verdicts = tuple(_withheld(verdict, blocking) for verdict in found)
    why = "; ".join(f"{v.rule}: {v.reason}" for v in verdicts if v.status == "blocked")
    return Guarded(f"This answer is withheld by a guardrail ({why}).", (), verdicts)


def _verdicts(
    config: Guardrails,
    question: str,
    checked: CheckedAnswer,
    sources: Sequence[Source],
    retrieved: Retrieved,
) -> Iterator[Verdict]:
    now = config.now or datetime.now(UTC).date()
    dates = retrieved.dates
    if config.coverage != "off":
        yield check_coverage(checked, config.min_coverage)
    if config.grounding != "off":
        yield check_grounding(checked.text, question, sources)
    if config.confidence != "off":
        yield check_confidence(question, retrieved.hits, retrieved.standing, retrieved.language)
    if config.stale != "off":
        yield (
            check_stale(checked, sources, dates, now, config.max_age_days)
            if config.date_field
            else not_applicable("stale", "guardrails.date_field names no field")
        )
    if config.temporal != "off":
        yield check_temporal(question, checked, sources, dates, now, config.max_age_days)
    if config.injection != "off":
        yield check_injection(sources)


def _withheld(verdict: Verdict, blocking: set[Rule]) -> Verdict:
    kept = tuple(finding for finding in verdict.findings if finding.within != "answer")
    status: Status = "blocked" if verdict.rule in blocking else verdict.status
    return dataclasses.replace(verdict, status=status, findings=kept)


def read_date(value: object) -> date | None:
    """A document's date from its declared field: a date, or a year, which counts to its end."""
    if isinstance(value, date):
        return value
    return date(value, 12, 31) if isinstance(value, int) and 0 < value <= date.max.year else None
