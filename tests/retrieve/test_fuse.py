import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.retrieve.fuse import (
    Ranking,
    alpha_weights,
    channel_ranks,
    channel_scores,
    convex,
    reciprocal_rank_fusion,
)


def ranking(*pairs):
    rows, scores = zip(*pairs, strict=True) if pairs else ((), ())
    return Ranking(np.array(rows, np.int64), np.array(scores, np.float64))


def as_dict(result):
    return dict(zip(result.rows.tolist(), result.scores.tolist(), strict=True))


DENSE = ranking((7, 0.9), (3, 0.5), (5, 0.1))
BM25 = ranking((3, 12.0), (9, 4.0))


def test_rrf_counts_ranks_from_one():
    fused = reciprocal_rank_fusion({"dense": DENSE, "bm25": BM25})
    assert as_dict(fused) == pytest.approx({3: 1 / 62 + 1 / 61, 7: 1 / 61, 9: 1 / 62, 5: 1 / 63})
    assert fused.rows.tolist() == [3, 7, 9, 5]


def test_rrf_weights_and_constant():
    fused = reciprocal_rank_fusion({"dense": DENSE, "bm25": BM25}, {"dense": 2.0}, k=0)
    assert as_dict(fused) == pytest.approx({7: 2.0, 3: 2 / 2 + 1 / 1, 5: 2 / 3, 9: 1 / 2})
    assert fused.rows.tolist() == [3, 7, 5, 9]  # 3 and 7 tie at 2.0: the lower row first


def test_convex_by_min_and_max_of_the_lists():
    fused = convex({"dense": DENSE, "bm25": BM25}, alpha_weights(0.25), lowest=None)
    # dense: 1, (0.5-0.1)/0.8 = 0.5, 0; bm25: 1, 0; a row that is missing gets 0.
    assert as_dict(fused) == pytest.approx({7: 0.25, 3: 0.25 * 0.5 + 0.75, 5: 0.0, 9: 0.0})
    assert fused.rows.tolist() == [3, 7, 5, 9]


def test_convex_by_the_lowest_possible_score():
    fused = convex(
        {"dense": DENSE, "bm25": BM25}, {"dense": 3, "bm25": 1}, lowest={"dense": 0.0, "bm25": 0.0}
    )
    expected = {
        7: 0.75,
        3: 0.75 * 0.5 / 0.9 + 0.25,
        5: 0.75 * 0.1 / 0.9,
        9: 0.25 * 4 / 12,
    }
    assert as_dict(fused) == pytest.approx(expected)


def test_a_score_under_the_lowest_possible_is_not_negative():
    fused = convex({"dense": ranking((1, 1.0), (2, -1.0))}, {"dense": 1.0}, lowest={"dense": 0.0})
    assert as_dict(fused) == {1: 1.0, 2: 0.0}


@pytest.mark.parametrize("lowest", [None, {"bm25": 0.0}])
def test_one_hit_and_equal_scores_count_in_full(lowest):
    one = convex({"bm25": ranking((4, 3.0))}, {"bm25": 1.0}, lowest)
    assert as_dict(one) == {4: 1.0}
    alike = convex({"bm25": ranking((8, 3.0), (4, 3.0))}, {"bm25": 1.0}, lowest)
    assert alike.rows.tolist() == [4, 8]
    assert alike.scores.tolist() == [1.0, 1.0]


def test_an_empty_channel_leaves_the_other_alone():
    fused = convex({"dense": DENSE, "bm25": ranking()}, alpha_weights(0.5))
    assert fused.rows.tolist() == [7, 3, 5]
    assert reciprocal_rank_fusion({"dense": DENSE, "bm25": ranking()}).rows.tolist() == [7, 3, 5]


def test_nothing_found_at_all():
    for fused in (
        reciprocal_rank_fusion({}),
        convex({}, {}),
        convex({"dense": ranking()}, {"dense": 1}),
    ):
        assert len(fused.rows) == len(fused.scores) == 0
        assert fused.rows.dtype == np.int64


def test_weights_that_are_all_zero_are_an_error():
    with pytest.raises(ValueError, match="no channel"):
        convex({"dense": DENSE}, {"bm25": 1.0})


def test_ranking_of_an_index_answer_drops_absent_hits():
    made = Ranking.of(np.array([4, 2, -1]), np.array([0.5, 0.25, -np.inf], np.float32))
    assert made.rows.tolist() == [4, 2]
    assert made.scores.tolist() == [0.5, 0.25]


def test_what_each_channel_said():
    rows = np.array([3, 7, 9])
    lists = {"dense": DENSE, "bm25": BM25}
    ranks = channel_ranks(lists, rows)
    assert ranks["dense"].tolist() == [2, 1, 0]
    assert ranks["bm25"].tolist() == [1, 0, 2]
    scores = channel_scores(lists, rows)
    np.testing.assert_array_equal(scores["dense"], [0.5, 0.9, np.nan])
    np.testing.assert_array_equal(scores["bm25"], [12.0, np.nan, 4.0])


@st.composite
def rankings(draw):
    rows = draw(st.lists(st.integers(0, 30), unique=True, max_size=12))
    floats = st.floats(-1, 50, allow_nan=False).map(lambda x: round(x, 3))
    scores = sorted(draw(st.lists(floats, min_size=len(rows), max_size=len(rows))), reverse=True)
    return ranking(*zip(rows, scores, strict=True))


@given(rankings(), rankings(), st.floats(0, 1))
def test_fusion_keeps_every_row_once_and_in_order(dense, bm25, alpha):
    lists = {"dense": dense, "bm25": bm25}
    for fused in (
        reciprocal_rank_fusion(lists),
        convex(lists, alpha_weights(alpha)),
        convex(lists, alpha_weights(alpha), lowest=None),
    ):
        assert set(fused.rows.tolist()) == set(dense.rows.tolist()) | set(bm25.rows.tolist())
        assert len(fused.rows) == len(set(fused.rows.tolist()))
        keys = [(-s, r) for r, s in zip(fused.rows.tolist(), fused.scores.tolist(), strict=True)]
        assert keys == sorted(keys)


@given(rankings(), rankings(), st.floats(0, 1))
def test_convex_scores_lie_between_zero_and_one(dense, bm25, alpha):
    fused = convex({"dense": dense, "bm25": bm25}, alpha_weights(alpha))
    assert np.all(fused.scores >= 0)
    assert np.all(fused.scores <= 1 + 1e-9)


@given(rankings())
def test_fusing_one_channel_keeps_its_order(dense):
    assert reciprocal_rank_fusion({"dense": dense}).rows.tolist() == dense.rows.tolist()


def test_the_default_minimum_is_what_an_unrelated_passage_scores():
    lists = {"dense": ranking((1, 0.8), (2, 0.4)), "bm25": ranking((2, 6.0), (3, 3.0))}
    fused = convex(lists, alpha_weights(0.5))
    assert as_dict(fused) == pytest.approx({1: 0.5, 2: 0.25 + 0.5, 3: 0.25})
    deeper = {"dense": ranking((1, 0.8), (2, 0.4), (9, 0.1)), "bm25": lists["bm25"]}
    again = as_dict(convex(deeper, alpha_weights(0.5)))
    assert {row: again[row] for row in (1, 2, 3)} == pytest.approx(as_dict(fused))


def test_the_head_of_a_ranking():
    assert DENSE.first(2).rows.tolist() == [7, 3]
    assert len(DENSE.first(9).rows) == 3


def test_channels_beside_dense_share_what_it_leaves():
    assert alpha_weights(0.6) == {"dense": 0.6, "bm25": 0.4}
    three = alpha_weights(0.6, ("dense", "bm25", "splade"), {"bm25": 1.0, "splade": 3.0})
    assert three == pytest.approx({"dense": 0.6, "bm25": 0.1, "splade": 0.3})
    assert alpha_weights(0.6, ("dense", "splade")) == pytest.approx({"dense": 0.6, "splade": 0.4})
    sparse = alpha_weights(1.0, ("bm25", "splade"), {"dense": 1.0, "bm25": 1.0, "splade": 3.0})
    assert sparse == {"bm25": 0.25, "splade": 0.75}
    assert alpha_weights(0.6, ("bm25", "splade"), {"bm25": 0, "splade": 0}) == {
        "bm25": 0.5,
        "splade": 0.5,
    }


def test_three_channels():
    # dense: 1 / .5, bm25: 2 / 1, splade: only row 3
    lists = {
        "dense": ranking((1, 1.0), (2, 0.5)),
        "bm25": ranking((2, 4.0), (1, 2.0)),
        "splade": ranking((3, 7.0)),
    }
    fused = as_dict(convex(lists, alpha_weights(0.5, lists)))
    assert fused == pytest.approx({1: 0.5 + 0.125, 2: 0.25 + 0.25, 3: 0.25})
    ranks = as_dict(reciprocal_rank_fusion(lists, {"splade": 2.0}))
    assert ranks[3] == pytest.approx(2 / 61)
