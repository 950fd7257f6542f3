"""The rules on an answer and its sources, each alone."""

from __future__ import annotations

from datetime import date

import pytest
from answer_samples import source

from rag_cluster.answer.citations import check_citations
from rag_cluster.answer.guardrails.coverage import check_coverage
from rag_cluster.answer.guardrails.grounding import check_grounding
from rag_cluster.answer.guardrails.staleness import check_stale
from rag_cluster.answer.guardrails.temporal import (
    asked_year,
    asks_for_now,
    check_temporal,
    newest_day,
)
from rag_cluster.answer.sources import NOTHING_FOUND

NOW = date(2026, 6, 30)
FEE = source("The fee for mooring is 18 euros.", 1)
QUAY = source("Members may moor at the north quay since 2019.", 2)
SOURCES = [FEE, QUAY]


def coverage(answer: str, least: float = 1.0):
    return check_coverage(check_citations(answer, SOURCES), least)


def test_coverage_is_the_share_of_supported_sentences():
    checked = check_citations("The fee for mooring is 18 euros. Bananas are yellow fruit.", SOURCES)
    verdict = check_coverage(checked, 1.0)
    assert (verdict.status, verdict.value) == ("flagged", 0.5)
    [finding] = verdict.findings
    assert checked.text[finding.start : finding.end] == finding.text == "Bananas are yellow fruit."
    assert verdict.notes == ["no passage supports: Bananas are yellow fruit."]


def test_coverage_is_flagged_under_the_share_that_is_asked_for():
    answer = "The fee for mooring is 18 euros. Bananas are yellow fruit."
    assert coverage(answer, 0.5).status == "ok"
    assert coverage(answer, 0.51).status == "flagged"
    assert coverage(answer, 0.5).notes == []


@pytest.mark.parametrize(
    "extra",
    [
        "The rules are as follows:",
        "The passages do not say who collects it.",
        "There is no information about dogs.",
        "# Mooring",
        "```\nmoor --fee 99\n```",
    ],
)
def test_what_states_nothing_is_not_counted(extra):
    verdict = coverage(f"The fee for mooring is 18 euros.\n\n{extra}")
    assert (verdict.status, verdict.value) == ("ok", 1.0)


@pytest.mark.parametrize("answer", [NOTHING_FOUND, "", "# Title"])
def test_coverage_does_not_apply_to_an_answer_that_states_nothing(answer):
    assert coverage(answer).status == "not_applicable"


def test_grounding_reports_numbers_with_their_place():
    answer = "The fee is 18 euros for members [1] and 25 euros for others. [1]"
    verdict = check_grounding(answer, "What is the fee?", SOURCES)
    assert (verdict.status, verdict.value) == ("flagged", 0.5)
    [finding] = verdict.findings
    assert answer[finding.start : finding.end] == finding.text == "25 euros"
    assert verdict.notes == ["no passage says: 25 euros"]


def test_grounding_says_where_a_number_is_the_questions_own():
    verdict = check_grounding("In 2024 it was 18 euros.", "What was the fee in 2024?", SOURCES)
    assert verdict.notes == ["no passage says: 2024 (the question does)"]


def test_grounding_does_not_apply_without_numbers():
    assert check_grounding("Members may moor. [2]", "Who?", SOURCES).status == "not_applicable"


def stale(answer: str, dates: dict[str, date]):
    return check_stale(check_citations(answer, SOURCES), SOURCES, dates, NOW, 365)


def test_a_source_is_stale_by_the_day():
    answer = "The fee for mooring is 18 euros. [1]"
    assert stale(answer, {"doc1": date(2025, 6, 30)}).status == "ok"
    verdict = stale(answer, {"doc1": date(2025, 6, 29)})
    assert (verdict.status, verdict.value) == ("flagged", 366)
    assert verdict.notes == ["source [1] is of 2025-06-29, 366 days old"]
    assert (verdict.findings[0].marker, verdict.findings[0].within) == (1, "source")


def test_only_cited_sources_with_a_date_can_be_stale():
    answer = "The fee for mooring is 18 euros. [1]"
    assert stale(answer, {"doc2": date(1990, 1, 1)}).status == "not_applicable"
    assert stale(NOTHING_FOUND, {"doc1": date(1990, 1, 1)}).status == "not_applicable"
    assert stale(answer, {"doc1": date(2027, 1, 1)}).status == "ok"


@pytest.mark.parametrize(
    "question",
    [
        "What is the latest firmware?",
        "Who is the current chair?",
        "Which roads are closed at the moment?",
        "Is the museum open today?",
        "What projects are running now?",
        "Was ist der aktuelle Preis?",
        "Quel est le prix actuel ?",
        "¿Cuál es el precio actual?",
        "目前的价格是多少\uff1f",
    ],
)
def test_questions_for_now(question):
    assert asks_for_now(question)


@pytest.mark.parametrize(
    "question",
    [
        "What current does the heater draw?",
        "How large is the electric current?",
        "How do I list the files of the current directory?",
        "What is the latest time to check in?",
        "When was the lighthouse built?",
        "How is it opened now that the latch is gone?",
        "What do we know?",
    ],
)
def test_questions_for_no_time(question):
    assert not asks_for_now(question)


def test_the_year_that_a_question_asks_for():
    assert asked_year("What were sales in 2023 and 2025?", NOW) == 2025
    assert asked_year("What happened this year?", NOW) == 2026
    assert asked_year("What was it last year?", NOW) == 2025
    assert asked_year("What about FY24?", NOW) == 2024
    assert asked_year("What does ISO 9001:2015 ask for?", NOW) is None


def test_how_new_a_source_is():
    assert newest_day(FEE, {}, NOW) is None
    assert newest_day(QUAY, {}, NOW) == date(2019, 12, 31)
    assert newest_day(QUAY, {"doc2": date(2025, 1, 2)}, NOW) == date(2025, 1, 2)
    plans = source("Plans of 2021 for 2040.", 3)
    assert newest_day(plans, {}, NOW) == date(2021, 12, 31)
    this_year = source("Since March 2026.", 3)
    assert newest_day(this_year, {}, NOW) == NOW


def temporal(question: str, text: str, dates: dict[str, date] | None = None):
    sources = [source(text, 1)]
    checked = check_citations(f"{text} [1]", sources)
    return check_temporal(question, checked, sources, dates or {}, NOW, 365)


def test_a_question_for_now_needs_a_source_of_the_last_days():
    question, text = "Who is the current chair?", "Mr. Holm is the chair."
    assert temporal(question, text).status == "not_applicable"
    old = temporal(question, text, {"doc1": date(2024, 1, 1)})
    assert (old.status, old.value) == ("flagged", "2024-01-01")
    assert "2024-01-01" in old.notes[0]
    assert temporal(question, text, {"doc1": date(2025, 12, 1)}).status == "ok"
    assert temporal(question, f"{text} He was elected in 2017.").value == "2017"


def test_a_question_for_a_year_needs_a_source_of_it_or_one_that_says_it():
    text = "The sales were 40 million in 2023."
    assert temporal("What were the sales in 2025?", text).status == "flagged"
    assert temporal("What were the sales in 2023?", text).status == "ok"
    assert temporal("What were the sales in 2020?", text).status == "ok"
    assert temporal("Is there a target for 2030?", "By 2030, 40 % less.").status == "not_applicable"
    plan = temporal("Is there a target for 2030?", "In 2024: by 2030, 40 % less.")
    assert plan.status == "ok"


def test_a_question_of_no_time_has_no_mismatch():
    assert temporal("Who is Mr. Holm?", "Mr. Holm came in 1950.").status == "not_applicable"
