from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.chunk.whole import find_fences, find_formulas, outside


@pytest.mark.parametrize(
    "formula",
    [
        "$x$",
        "$a_1 + b$",
        r"$\$5 + x$",
        "$$E = mc^2$$",
        "$$\nE = mc^2\n$$",
        r"\(x + 1\)",
        "\\[\n x \\]",
        "\\begin{align*}\n a &= b \\\\\n\n c\n\\end{align*}",
    ],
)
def test_a_formula_is_found_from_its_first_to_its_last_sign(formula: str) -> None:
    text = f"Before {formula}, after."
    assert [text[a:b] for a, b in find_formulas(text)] == [formula]


@pytest.mark.parametrize(
    "text",
    [
        "It cost $5 and then $6.",
        "From $100-$200 a day.",
        r"An escaped \$x\$ is text.",
        "$ 1,577 $ 1,344",
        "A stray $$ here.\n\nAnd another paragraph $$ there.",
        "$x\ny$",
        r"\begin{equation} without an end",
        "US$5 million or US$6 million",
    ],
)
def test_money_and_strays_are_not_formulas(text: str) -> None:
    assert find_formulas(text) == []


def test_dollars_in_code_are_not_formulas() -> None:
    text = "a $x$\n```sh\necho $HOME$\n```\nb $y$"
    fences = find_fences(text)
    assert [text[a:b] for a, b in fences] == ["```sh\necho $HOME$\n```"]
    assert [text[a:b] for a, b in find_formulas(text, fences)] == ["$x$", "$y$"]


def test_a_fence_without_an_end_reaches_to_the_end() -> None:
    text = "a\n~~~\ncode\n"
    assert find_fences(text) == [(2, len(text))]


def test_a_fence_ends_only_at_its_own_mark() -> None:
    text = "````\n```\n````\nafter"
    assert find_fences(text) == [(0, 13)]


@given(st.lists(st.integers(0, 40)), st.lists(st.integers(0, 40), max_size=8))
def test_outside_drops_what_is_strictly_inside(positions: list[int], edges: list[int]) -> None:
    edges = sorted(set(edges))
    spans = list(zip(edges[::2], edges[1::2], strict=False))
    kept = [p for p in sorted(positions) if not any(a < p < b for a, b in spans)]
    assert outside(sorted(positions), spans) == kept


@pytest.mark.parametrize("sign", ["$", "$$", r"\[ ", r"\( ", r"\begin{equation} ", "$a "])
def test_many_openings_without_an_end_take_no_time(sign: str) -> None:
    began = time.process_time()
    assert find_formulas(sign * 5_000) is not None
    assert time.process_time() - began < 5
