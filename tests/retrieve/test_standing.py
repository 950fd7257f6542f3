import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.retrieve.fuse import Ranking
from rag_cluster.retrieve.standing import standing


def ranking(*scores: float) -> Ranking:
    return Ranking(np.arange(len(scores)), np.array(scores, dtype=np.float64))


# Ten hits ahead, and behind them 1 and 3 in turns: a mean of 2, a standard deviation of 1.
SCORES = [9.0, 8, 7, 6, 5, 5, 5, 4, 4, 4, *[3, 1] * 5]
TWENTY = ranking(*SCORES)


def test_a_hit_stands_as_many_deviations_above_the_others_as_its_score_does():
    assert standing({"dense": TWENTY}, 0) == {"dense": 7.0}
    assert standing({"dense": TWENTY}, 3) == {"dense": 4.0}


def test_what_a_channel_has_not_or_has_low_stands_at_nothing():
    assert standing({"dense": TWENTY}, 77) == {"dense": 0.0}
    assert standing({"dense": TWENTY}, 19) == {"dense": 0.0}


def test_a_channel_with_few_candidates_tells_nothing():
    few = ranking(*SCORES[:19])
    assert standing({"dense": TWENTY, "bm25": few}, 0) == {"dense": 7.0}
    assert standing({}, 0) == {}


def test_above_others_that_are_all_alike_is_the_most():
    assert standing({"dense": ranking(*[2.0] * 10, *[1.0] * 10)}, 0) == {"dense": 100.0}
    assert standing({"dense": ranking(*[1.0] * 20)}, 0) == {"dense": 0.0}


@given(st.floats(0.1, 100), st.floats(-100, 100))
def test_another_scale_and_offset_changes_nothing(factor, offset):
    other = Ranking(TWENTY.rows, TWENTY.scores * factor + offset)
    assert standing({"dense": other}, 0)["dense"] == pytest.approx(7.0)
