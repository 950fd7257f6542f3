"""Temporal mismatch: the question asks for now, or for a named year, and the sources are older.

How new a source is, is told by its declared date, and without one by the newest year that its text
says. What a question asks for is told by its words: "latest", "current", "this year", "in 2025".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from rag_cluster.answer.citations import CheckedAnswer
from rag_cluster.answer.evidence import said
from rag_cluster.answer.guardrails.staleness import Dates, cited_sources
from rag_cluster.answer.guardrails.verdict import Verdict, flagged, not_applicable, passed
from rag_cluster.answer.quantities import read
from rag_cluster.answer.sources import Source

_NOW = re.compile(
    r"""
    \b(?:latest|newest|current|currently|today(?:'s)?|nowadays|at\ present|presently|right\ now
        |as\ of\ (?:now|today)|up[- ]to[- ]date|most\ recent|these\ days|at\ the\ moment
        |now(?=\W*\Z)
        |aktuell\w*|derzeit\w*|gegenw\u00e4rtig\w*|heute|neueste\w*|zurzeit
        |actuel\w*|aujourd'hui|en\ ce\ moment|le\ plus\ r\u00e9cent
        |actual|actualmente|hoy|m\u00e1s\ reciente)\b
    | \u6700\u65b0|\u76ee\u524d|\u73b0\u5728|\u5f53\u524d|\u4eca\u5929
    """,
    re.IGNORECASE | re.VERBOSE,
)
# Electric current, the current directory, the latest time to check in: no questions of date.
_OTHER_SENSE = re.compile(
    r"""
    \b(?:electric\w*|alternating|direct|rated|input|output|inrush|leakage|short[- ]circuit|supply
        |charging|ocean|tidal|river|maximum|max|[ad]c)\ current\b
    | \b(?:what|how\ much)\ current\ (?:do|does|is|can|may|must|will|flows|runs)\b
    | \bcurrent\ (?:draw|drawn|consumption|rating|flow|limit\w*|sensor|transformer|loop|density
        |(?:working\ )?(?:directory|folder|user|row|line|thread|process|node|page|position|session
        |element|branch|selection|cell|window|tab|item))\b
    | \b(?:a|the)\ current\ (?:of|in|through|at)\b
    | \blatest\ (?:time|hour|moment|possible)\b | \bat\ the\ latest\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
_THIS_YEAR = re.compile(
    r"\bthis\s(?:year|month|week|quarter|season)(?:'s)?\b"
    r"|\bdieses\sjahr|\bcette\sann\u00e9e|\beste\sa\u00f1o|\u4eca\u5e74",
    re.IGNORECASE,
)
_LAST_YEAR = re.compile(
    r"\b(?:last|the\sprevious|the\spast)\syear(?:'s)?\b"
    r"|\bletzte[sn]\sjahr|\bl'ann\u00e9e\sderni\u00e8re|\ba\u00f1o\spasado|\u53bb\u5e74",
    re.IGNORECASE,
)


def check_temporal(
    question: str,
    checked: CheckedAnswer,
    sources: Sequence[Source],
    dates: Dates,
    now: date,
    max_age_days: int,
) -> Verdict:
    """Flagged where all sources are older than what the question asks for.

    The sources are those that the answer cites, or all where it cites none. A question for now
    needs one that is at most `max_age_days` old; one for a year needs one of that year or later,
    or one that says it. The value is the date or year of the newest source.
    """
    year = asked_year(question, now)
    if year is None and not asks_for_now(question):
        return not_applicable("temporal", "the question asks for no time that sources could miss")
    used = cited_sources(checked, sources) or list(sources)
    newest = [day for source in used if (day := newest_day(source, dates, now))]
    if not newest:
        return not_applicable("temporal", "no source says how old it is")
    day = max(newest)
    known = any(source.doc_id in dates for source in used)
    value = day.isoformat() if known else str(day.year)
    if year is not None:
        covered = day.year >= year or any(year in _years(source) for source in used)
        reason = f"the question asks for {year}, and the newest source is of {value}"
    else:
        covered = (now - day).days <= max_age_days
        reason = f"the question asks for now ({now}), and the newest source is of {value}"
    return passed("temporal", value, reason) if covered else flagged("temporal", value, reason)


def asks_for_now(question: str) -> bool:
    """Whether the question asks for what holds at present."""
    return _NOW.search(_OTHER_SENSE.sub(" ", question)) is not None


def asked_year(question: str, now: date) -> int | None:
    """The newest year that the question names, be it as "this year" or "last year"."""
    years = [day.year for number in read(question) for day in number.days if day.year is not None]
    if _THIS_YEAR.search(question):
        years.append(now.year)
    if _LAST_YEAR.search(question):
        years.append(now.year - 1)
    return max(years, default=None)


def newest_day(source: Source, dates: Dates, now: date) -> date | None:
    """The source's date; without one the last day of the newest year that it says, up to now."""
    if source.doc_id in dates:
        return dates[source.doc_id]
    past = [year for year in _years(source) if year <= now.year]
    return min(date(max(past), 12, 31), now) if past else None


def _years(source: Source) -> set[int]:
    return {day.year for number in said(source) for day in number.days if day.year is not None}
