import asyncio
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.config import Config
from rag_cluster.errors import ModelError
from rag_cluster.models.fakes import FakeLLM
from rag_cluster.models.prompting import Prompting
from rag_cluster.rerank.listwise import Listwise, permutation, windows


@pytest.mark.parametrize(
    ("count", "size", "step", "expected"),
    [
        (100, 20, 10, [(80, 100), (70, 90), (60, 80), (50, 70), (40, 60), (30, 50), (20, 40),
                       (10, 30), (0, 20)]),
        (25, 20, 10, [(5, 25), (0, 15)]),
        (20, 20, 10, [(0, 20)]),
        (3, 20, 10, [(0, 3)]),
        (1, 20, 10, []),
        (0, 20, 10, []),
        (5, 3, 2, [(2, 5), (0, 3)]),
        (4, 2, 1, [(2, 4), (1, 3), (0, 2)]),
    ],
)  # fmt: skip
def test_windows_go_from_the_back_to_the_front(count, size, step, expected):
    found = list(windows(count, size, step))
    assert found == expected


@given(st.integers(2, 200), st.integers(2, 30), st.data())
def test_windows_cover_all_and_never_leave_a_gap(count, size, data):
    step = data.draw(st.integers(1, size - 1))
    found = list(windows(count, size, step))
    assert found[0][1] == count
    assert found[-1][0] == 0
    for (start, end), (next_start, next_end) in itertools.pairwise(found):
        assert next_start < start <= next_end < end
    assert all(0 < end - start <= size for start, end in found)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("[3] > [1] > [2] > [4]", [2, 0, 1, 3]),
        ("[4]>[4]>[1]", [3, 0, 1, 2]),
        ("The best of the 4 is [2], then [9] and [1].", [1, 0, 2, 3]),
        ("3, 1, 2", [2, 0, 1, 3]),
        ("[0] > [2]", [1, 0, 2, 3]),
        ("no idea", [0, 1, 2, 3]),
        ("", [0, 1, 2, 3]),
        ("[ 2 ] > " + "9" * 5000, [1, 0, 2, 3]),
    ],
)
def test_an_answer_is_repaired_to_a_permutation(answer, expected):
    assert permutation(answer, 4) == expected


@given(st.text() | st.lists(st.integers(-3, 40)).map(str), st.integers(0, 30))
def test_any_answer_gives_a_permutation(answer, count):
    assert sorted(permutation(answer, count)) == list(range(count))


@given(st.permutations(range(12)))
def test_a_permutation_is_read_as_it_was_written(order):
    answer = " > ".join(f"[{place + 1}]" for place in order)
    assert permutation(answer, 12) == list(order)


def by_number(request):
    """Ranks passages, which are numbers, the highest first."""
    shown = re.findall(r"^\[(\d+)\] (\d+)", request.messages[-1].content, re.MULTILINE)
    best = sorted(shown, key=lambda pair: -int(pair[1]))
    return " > ".join(f"[{number}]" for number, _ in best)


def steps(llm, texts, config=(), **keys):
    made = {"embed": {"model": "fake:16"}, **dict(config)}
    reranker = Listwise(llm, Prompting(Config.model_validate(made)), {}, **keys)

    async def collect():
        return [step async for step in reranker.steps("q", texts)]

    return asyncio.run(collect())


def test_the_best_passage_is_carried_from_the_back_to_the_front():
    llm = FakeLLM(by_number)
    texts = [str(number) for number in range(10, 22)]
    done = steps(llm, texts, window=4, step=2)
    assert len(llm.requests) == len(done) == 5
    # the first window reads the last four, and turns them about
    assert done[0].order.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 11, 10, 9, 8]
    assert done[-1].order[:2].tolist() == [11, 10]
    assert sorted(done[-1].order.tolist()) == list(range(12))
    best = done[-1].order[0]
    assert done[-1].scores[best] == 1.0
    assert done[-1].scores[done[-1].order[3]] == pytest.approx(1 / 4)


def test_passages_are_cut_and_numbered_and_the_query_is_there():
    llm = FakeLLM(lambda _: "[2] > [1]")
    (step,) = steps(llm, ["one " * 50, "two " * 50], passage_tokens=10)
    prompt = llm.requests[0].messages[-1].content
    assert prompt.count("one ") == 10
    assert "[2] two" in prompt
    assert "Query: q" in prompt
    assert step.order.tolist() == [1, 0]


def test_a_small_window_of_the_model_cuts_passages_further():
    llm = FakeLLM(lambda _: "[1] > [2]")
    steps(llm, ["one " * 300, "two " * 300], {"llm": {"window": 300}}.items())
    prompt = llm.requests[0].messages[-1].content
    assert 8 <= prompt.count("one ") < 100
    assert len(prompt.split()) + llm.requests[0].max_tokens <= 300


def test_a_window_that_holds_no_passages_is_an_error():
    with pytest.raises(ModelError, match="too small for a prompt with 20 passages"):
        steps(FakeLLM(), ["one " * 30] * 20, {"llm": {"window": 128}}.items())


def test_an_answer_without_a_number_is_an_error():
    with pytest.raises(ModelError, match="asked for a ranking and said 'They are all fine'"):
        steps(FakeLLM(["They are all fine"]), ["one", "two"])


def test_one_passage_asks_nobody():
    assert steps(FakeLLM(), ["one"]) == []
