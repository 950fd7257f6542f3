import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.index.topk import best_of, merge_topk, order_hits

score_lists = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), max_size=30)


def test_order_is_score_then_row_and_the_rest_is_no_hit() -> None:
    scores = np.array([[1.0, 3.0, 3.0, 9.0]], dtype=np.float32)
    rows = np.array([[4, 7, 2, -1]])
    ordered_scores, ordered_rows = order_hits(scores, rows, 5)
    assert ordered_rows.tolist() == [[2, 7, 4, -1, -1]]
    assert ordered_scores.tolist() == [[3.0, 3.0, 1.0, -np.inf, -np.inf]]


def test_a_hit_of_score_minus_infinity_is_still_a_hit() -> None:
    scores = np.array([[-np.inf, -np.inf]], dtype=np.float32)
    assert order_hits(scores, np.array([[-1, 3]]), 2)[1].tolist() == [[3, -1]]


@given(score_lists, st.integers(1, 40))
def test_best_of_is_a_sort(values: list[float], k: int) -> None:
    scores, rows = best_of(np.array(values, dtype=np.float32), k)
    wanted = sorted((-value, row) for row, value in enumerate(values) if value > 0)[:k]
    assert rows[0].tolist() == [row for _, row in wanted] + [-1] * (k - len(wanted))
    assert scores[0, : len(wanted)].tolist() == [-value for value, _ in wanted]


@given(st.lists(score_lists, min_size=1, max_size=5), st.integers(1, 12))
def test_merging_shards_is_the_best_of_all(shards: list[list[float]], k: int) -> None:
    offsets = [sum(len(shard) for shard in shards[:i]) for i in range(len(shards))]
    parts = [best_of(np.array(shard, dtype=np.float32), k) for shard in shards]
    whole = best_of(np.array([value for shard in shards for value in shard], dtype=np.float32), k)
    merged = merge_topk(parts, offsets, k)
    np.testing.assert_array_equal(merged[0], whole[0])
    np.testing.assert_array_equal(merged[1], whole[1])


def test_merging_needs_an_offset_for_each_shard() -> None:
    with pytest.raises(ValueError, match="0 parts"):
        merge_topk([], [], 3)
