"""The labelled cases are sound, and what the rules reach on them is not lost again."""

import pytest

from benchmarks.guardrails import PARTS, RULES, read_cases, score

CASES = read_cases()


def test_the_cases_are_sound():
    assert len(CASES) >= 60
    assert len({case["id"] for case in CASES}) == len(CASES)
    for case in CASES:
        assert set(case["flagged"]) <= set(RULES), case["id"]
        assert case["part"] in PARTS
        assert bool(case.get("numbers")) == ("grounding" in case["flagged"]), case["id"]
        assert all(number in case["answer"] for number in case.get("numbers", []))


@pytest.mark.parametrize(
    ("rule", "precision", "recall"),
    [
        ("coverage", 0.85, 0.9),
        ("grounding", 0.97, 0.97),
        ("numbers", 0.97, 0.97),
        ("stale", 0.97, 0.97),
        ("temporal", 0.97, 0.97),
        ("injection", 0.97, 0.97),
    ],
)
def test_what_is_reached_on_the_ordinary_cases(rule, precision, recall):
    found = score([case for case in CASES if case["part"] != "hard"], rule)
    assert found.precision >= precision
    assert found.recall >= recall
