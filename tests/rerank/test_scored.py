import asyncio

import numpy as np
import pytest

from rag_cluster.errors import ModelError
from rag_cluster.rerank import ByScore


class Numbers:
    async def score(self, query, texts):
        return np.array([float(text) for text in texts], dtype=np.float32)


def steps(reranker, texts):
    async def collect():
        return [step async for step in reranker.steps("q", texts)]

    return asyncio.run(collect())


def test_the_order_is_by_score_and_ties_keep_their_rank():
    (step,) = steps(ByScore(Numbers()), ["1", "3", "1", "2", "3"])
    assert step.order.tolist() == [1, 4, 3, 0, 2]
    assert step.scores.tolist() == [1, 3, 1, 2, 3]


def test_a_step_after_each_batch_and_what_was_not_read_stays_behind():
    first, second, third = steps(ByScore(Numbers(), batch=2), ["1", "3", "2", "9", "4"])
    assert first.order.tolist() == [1, 0, 2, 3, 4]
    assert np.isnan(first.scores).tolist() == [False, False, True, True, True]
    assert second.order.tolist() == [3, 1, 2, 0, 4]
    assert third.order.tolist() == [3, 4, 1, 2, 0]


def test_a_score_that_is_not_a_number_is_refused():
    with pytest.raises(ModelError, match="passage 2 of 2, 'nan'"):
        steps(ByScore(Numbers()), ["1", "nan"])


def test_a_missing_score_is_refused():
    class Short:
        async def score(self, query, texts):
            return np.zeros(1, dtype=np.float32)

    with pytest.raises(ModelError, match=r"\(1,\) for 2"):
        steps(ByScore(Short()), ["a", "b"])
