import math

import pytest
from answer_samples import passage
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.answer.guardrails.confidence import (
    check_confidence,
    confidence,
    label_of,
    shared_words,
)

HITS = [passage("The lighthouse keeper counts gulls."), passage("A quay of granite.", rank=2)]
QUESTION = "What does the keeper of the lighthouse count?"


def test_confidence_is_the_logistic_function():
    # z = 4 gives 4 / (4 + 4) = .5, z = 12 gives .75: 5.5 * .8 + 4.5 * .625 - 6.5 = .7125
    assert confidence(0.8, {"dense": 4.0, "bm25": 12.0}) == pytest.approx(
        1 / (1 + math.exp(-0.7125))
    )
    # without channels .4: 5.5 + 1.8 - 6.5 = .8
    assert confidence(1.0, {}) == pytest.approx(1 / (1 + math.exp(-0.8)))
    assert confidence(0.0, {"dense": 0.0}) == pytest.approx(1 / (1 + math.exp(6.5)))


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 100), st.floats(0, 100))
def test_more_of_either_is_never_less_confident(words, other, far, further):
    low, high = sorted((words, other))
    near, out = sorted((far, further))
    assert 0 < confidence(low, {"dense": near}) <= confidence(high, {"dense": out}) < 1


def test_labels():
    assert [label_of(value) for value in (0.349, 0.35, 0.649, 0.65)] == [
        "low", "medium", "medium", "high",
    ]  # fmt: skip


def test_words_are_stemmed_and_the_best_of_the_hits_counts():
    assert shared_words(QUESTION, HITS, "english") == (3, 3)
    assert shared_words(QUESTION, HITS[1:], "english") == (0, 3)


def test_a_verdict_says_what_it_is_made_of():
    verdict = check_confidence(QUESTION, HITS, {"dense": 6.0, "bm25": 4.0}, "english")
    assert (verdict.status, verdict.value, verdict.notes) == ("ok", "high", [])
    assert verdict.measured["words"] == 1
    assert verdict.measured["dense"] == 6
    assert "3 of the question's 3 words" in verdict.reason
    assert "6.0 (dense) and 4.0 (bm25) standard deviations" in verdict.reason


def test_low_confidence_is_flagged():
    verdict = check_confidence("Who won the chess tournament?", HITS, {"dense": 1.0}, "english")
    assert (verdict.status, verdict.value) == ("flagged", "low")
    assert verdict.notes == [verdict.reason]


def test_few_candidates_and_none():
    assert "too few others" in check_confidence(QUESTION, HITS, {}, "english").reason
    verdict = check_confidence(QUESTION, [], {}, "english")
    assert (verdict.status, verdict.value) == ("flagged", "low")
    assert verdict.reason == "confidence is low: the search found nothing"
