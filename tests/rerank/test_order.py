import asyncio
import math
import threading
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.errors import ModelError, ServiceError
from rag_cluster.models.fakes import FakeScorer
from rag_cluster.models.threads import AsyncScorerThread
from rag_cluster.rerank import ByScore, Stage, Step, cascade


class Given:
    """Scores each text, which is a number, by that number or its negative."""

    def __init__(self, sign=1.0, delay_s=0.0):
        self.sign = sign
        self.seen = []
        self.delay_s = delay_s

    async def score(self, query, texts):
        self.seen.append(list(texts))
        await asyncio.sleep(self.delay_s)
        return np.array([self.sign * float(text) for text in texts], dtype=np.float32)


class Broken:
    """Swaps the first two passages, and then fails."""

    def __init__(self, error):
        self.error = error

    async def steps(self, query, texts):
        order = np.array([1, 0, *range(2, len(texts))], dtype=np.int64)
        yield Step(order, np.linspace(0, 1, len(texts)))
        raise self.error


def run(texts, *stages, **options):
    made = [Stage(f"stage {number}", *stage) for number, stage in enumerate(stages)]
    return asyncio.run(cascade("q", texts, made, **options))


def test_each_stage_reads_the_best_of_the_one_before():
    first, second = Given(), Given(-1)
    result = run(["1", "2", "3", "4", "9"], (ByScore(first), 4), (ByScore(second), 2))
    assert first.seen == [["1", "2", "3", "4"]]
    assert second.seen == [["4", "3"]]
    # the second stage turns its two about; the rest keep the first one's order; 9 was never seen
    assert result.order.tolist() == [2, 3, 1, 0, 4]
    assert result.scores[:4].tolist() == [-3, -4, 2, 1]
    assert np.isnan(result.scores[4])
    assert result.stages.tolist() == [1, 1, 0, 0, -1]
    assert result.notes == []


def test_no_stage_and_no_passage_change_nothing():
    assert run(["b", "a"]).order.tolist() == [0, 1]
    scorer = Given()
    assert run([], (ByScore(scorer), 4)).order.tolist() == []
    assert scorer.seen == []


def test_a_synchronous_scorer_is_awaited_on_its_thread():
    with AsyncScorerThread(FakeScorer()) as scorer:
        stage = Stage("overlap", ByScore(scorer), 9)
        result = asyncio.run(cascade("red cat", ["dog", "a cat", "red cat"], [stage]))
    assert result.order.tolist() == [2, 1, 0]


@given(
    st.lists(st.integers(-3, 3), max_size=20),
    st.lists(st.integers(1, 25), max_size=3),
    st.none() | st.integers(1, 7),
)
def test_a_cascade_loses_no_passage(values, counts, batch):
    texts = [str(value) for value in values]
    result = run(texts, *((ByScore(Given(), batch), count) for count in counts))
    assert sorted(result.order.tolist()) == list(range(len(texts)))
    assert (np.diff(result.stages) <= 0).all()


@pytest.mark.parametrize("error", [ModelError("no"), ServiceError("no")])
def test_a_stage_that_may_fail_leaves_what_it_had_done_and_the_next_one_goes_on(error):
    second = Given()
    result = run(["1", "2", "3"], (Broken(error), 3, True), (ByScore(second), 2))
    assert second.seen == [["2", "1"]]
    assert result.order.tolist() == [1, 0, 2]
    assert result.notes == ["stage 0 failed, and the order before it is used: no"]


def test_a_stage_that_may_not_fail_raises():
    with pytest.raises(ModelError, match="no"):
        run(["1", "2"], (Broken(ModelError("no")), 2))


def test_after_the_deadline_the_finished_stages_count():
    second, third = Given(-1, delay_s=30), Given(-1)
    result = run(
        ["1", "2", "3"],
        (ByScore(Given()), 3), (ByScore(second), 3), (ByScore(third), 3),
        deadline_s=0.1,
    )  # fmt: skip
    assert result.order.tolist() == [2, 1, 0]
    assert result.stages.tolist() == [0, 0, 0]
    assert third.seen == []
    (note,) = result.notes
    assert note.startswith(
        "the time for reranking was over while stage 1 was at work (0 of 3 passages"
    )


def test_what_was_scored_before_the_deadline_is_what_fewer_candidates_would_have_given():
    class Slower(Given):
        async def score(self, query, texts):
            self.delay_s = 30 if self.seen else 0
            return await super().score(query, texts)

    texts = ["1", "5", "9", "7"]
    cut = run(texts, (ByScore(Slower(), batch=2), 4), deadline_s=0.1)
    fewer = run(texts, (ByScore(Given()), 2))
    assert cut.order.tolist() == fewer.order.tolist() == [1, 0, 2, 3]
    assert cut.stages.tolist() == fewer.stages.tolist() == [0, 0, -1, -1]
    assert "(2 of 4 passages ordered)" in cut.notes[0]


def test_a_deadline_that_is_far_changes_nothing():
    texts = ["1", "5", "9", "7"]
    result = run(texts, (ByScore(Given(), batch=3), 4), deadline_s=60)
    assert result.order.tolist() == [2, 3, 1, 0]
    assert result.notes == []


def test_abandoned_work_is_one_batch_and_what_waited_behind_it_is_not_begun():
    release = threading.Event()
    begun = []

    class Stuck:
        def score(self, query, texts):
            begun.append(query)
            release.wait(30)
            return np.zeros(len(texts), dtype=np.float32)

    async def two():
        with AsyncScorerThread(Stuck()) as scorer:
            stage = Stage("stuck", ByScore(scorer, batch=1), 9)
            start = time.monotonic()
            found = await asyncio.gather(
                *(cascade(query, ["a", "b"], [stage], 0.1) for query in ("one", "two"))
            )
            took = time.monotonic() - start
            release.set()
        return found, took

    found, took = asyncio.run(two())
    assert took < 10
    assert [result.order.tolist() for result in found] == [[0, 1], [0, 1]]
    assert begun == ["one"]
    assert all(math.isnan(score) for result in found for score in result.scores)
