"""Leaders and followers, on signatures made by hand and by chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rag_cluster.index.leaders import find_leaders, least_equal
from rag_cluster.index.minhash import band_hashes

PLACES = 8


def lead(made: np.ndarray, least: int, texts: list[int] | None = None) -> list[int]:
    """The leaders where every pair with an equal place is a candidate."""
    numbers = np.arange(len(made)) if texts is None else np.array(texts)
    words = np.stack([numbers, numbers], axis=1).astype(np.uint64)
    signed = np.ones(len(made), bool)
    return find_leaders(
        words, band_hashes(made, 1), signed, lambda rows: made[rows], least
    ).tolist()


def test_how_many_places_must_agree() -> None:
    assert least_equal(0.9, 128) == 116  # 115.2, rounded up
    assert least_equal(0.75, 128) == 96
    assert least_equal(1.0, 16) == 16


def test_a_chain_is_not_one_cluster() -> None:
    a = np.arange(PLACES)
    b = np.where(a == 0, 100, a)  # 7 of 8 as a
    c = np.where(a == 1, 200, b)  # 7 of 8 as b, 6 as a
    d = np.where(a == 2, 300, c)  # 7 of 8 as c
    made = np.array([a, b, c, d], np.uint32)
    assert lead(made, 7) == [0, 0, 2, 2]
    assert lead(made[[1, 0, 2, 3]], 7) == [0, 0, 0, 3]
    assert lead(made, 8) == [0, 1, 2, 3]
    assert lead(made, 5) == [0, 0, 0, 0]


def test_equal_texts_go_with_the_first_of_them() -> None:
    a = np.arange(PLACES)
    b = np.where(a == 0, 100, a)
    far = a + 1000
    made = np.array([a, b, far, b, far], np.uint32)
    assert lead(made, 7, [1, 2, 3, 2, 3]) == [0, 0, 2, 0, 2]
    none = find_leaders(
        np.array([[5, 5], [6, 5], [5, 5]], np.uint64),
        np.zeros((3, 2), np.uint64),
        np.zeros(3, bool),  # too short to be compared otherwise
        lambda rows: made[rows],
        7,
    )
    assert none.tolist() == [0, 1, 0]


def test_no_documents_have_no_leaders() -> None:
    assert lead(np.empty((0, PLACES), np.uint32), 7) == []


@pytest.mark.parametrize("least", [4, 6])
@given(made=arrays.arrays(np.uint32, st.tuples(st.integers(1, 12), st.just(PLACES)),
                          elements=st.integers(0, 1)))  # fmt: skip
def test_followers_are_like_their_leader_and_leaders_like_no_leader(
    made: np.ndarray, least: int
) -> None:
    found = lead(made, least)
    alike = (made[:, None, :] == made[None, :, :]).sum(axis=2) >= least
    leaders = sorted(set(found))
    for row, leader in enumerate(found):
        assert alike[row, leader]
        assert leader <= row
        assert found[leader] == leader
    assert not [(a, b) for a in leaders for b in leaders if a < b and alike[a, b]]
    # What comes later changes nothing.
    assert lead(made[:-1], least) == found[:-1]
