"""The tables of docs/guardrails.md hold."""

import re
from pathlib import Path

import pytest
from answer_samples import source

from rag_cluster.answer.evidence import claimed, unsaid
from rag_cluster.answer.guardrails.confidence import confidence

PAGE = (Path(__file__).parents[3] / "docs/guardrails.md").read_text("utf-8")
HEADER = "| answer | passage | because |\n|---|---|---|\n"


def rows(number: int) -> list[tuple[str, str]]:
    table = PAGE.split(HEADER)[number].split("\n\n")[0]
    cells = [re.split(r" ?\| ?", line.strip())[1:3] for line in table.splitlines()]
    return [(answer, passage) for answer, passage in cells]


@pytest.mark.parametrize(("answer", "passage"), rows(1))
def test_what_is_said(answer, passage):
    assert claimed(answer)
    assert unsaid(claimed(answer), [source(f"It says {passage}.")]) == []


@pytest.mark.parametrize(("answer", "passage"), rows(2))
def test_what_is_not_said(answer, passage):
    assert unsaid(claimed(answer), [source(f"It says {passage}.")])


def test_the_worked_example_of_confidence():
    shown = re.search(r"confidence 1 / \(1 \+ exp\(-\.71\)\) = (\.\d+), high", PAGE)
    value = confidence(4 / 5, {"dense": 4.0, "bm25": 12.0})
    assert round(value, 2) == float(shown.group(1))
