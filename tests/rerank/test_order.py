import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.errors import ModelError
from rag_cluster.models.fakes import FakeScorer
from rag_cluster.models.threads import AsyncScorerThread
from rag_cluster.rerank import cascade, rerank


class Given:
    """Scores each text, which is a number, by that number or its negative."""

    def __init__(self, sign=1.0):
        self.sign = sign
        self.seen = []

    async def score(self, query, texts):
        self.seen.append(list(texts))
        return np.array([self.sign * float(text) for text in texts], dtype=np.float32)


def test_the_order_is_by_score_and_ties_keep_their_rank():
    order, scores = asyncio.run(rerank("q", ["1", "3", "1", "2", "3"], Given()))
    assert order.tolist() == [1, 4, 3, 0, 2]
    assert scores.tolist() == [1, 3, 1, 2, 3]


def test_nothing_to_rank_asks_nobody():
    scorer = Given()
    order, scores = asyncio.run(rerank("q", [], scorer))
    assert (order.tolist(), scores.tolist(), scorer.seen) == ([], [], [])


def test_a_score_that_is_not_a_number_is_refused():
    with pytest.raises(ModelError, match="passage 2 of 2, 'nan'"):
        asyncio.run(rerank("q", ["1", "nan"], Given()))


def test_a_missing_score_is_refused():
    class Short:
        async def score(self, query, texts):
            return np.zeros(1, dtype=np.float32)

    with pytest.raises(ModelError, match=r"\(1,\) for 2"):
        asyncio.run(rerank("q", ["a", "b"], Short()))


def test_each_stage_reads_the_best_of_the_one_before():
    first, second = Given(), Given(-1)
    result = asyncio.run(cascade("q", ["1", "2", "3", "4", "9"], [(first, 4), (second, 2)]))
    assert first.seen == [["1", "2", "3", "4"]]
    assert second.seen == [["4", "3"]]
    # the second stage turns its two about; the rest keep the first one's order; 9 was never seen
    assert result.order.tolist() == [2, 3, 1, 0, 4]
    assert result.scores[:4].tolist() == [-3, -4, 2, 1]
    assert np.isnan(result.scores[4])
    assert result.stages.tolist() == [1, 1, 0, 0, -1]


def test_no_stage_changes_nothing():
    assert asyncio.run(cascade("q", ["b", "a"], [])).order.tolist() == [0, 1]


def test_a_synchronous_scorer_is_awaited_on_its_thread():
    with AsyncScorerThread(FakeScorer()) as scorer:
        order, _ = asyncio.run(rerank("red cat", ["dog", "a cat", "red cat"], scorer))
    assert order.tolist() == [2, 1, 0]


@given(
    st.lists(st.integers(-3, 3), max_size=20),
    st.lists(st.integers(1, 25), max_size=3),
)
def test_a_cascade_loses_no_passage(values, counts):
    texts = [str(value) for value in values]
    result = asyncio.run(cascade("q", texts, [(Given(), count) for count in counts]))
    assert sorted(result.order.tolist()) == list(range(len(texts)))
