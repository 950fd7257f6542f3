"""Signatures and bands: values worked out by hand, and estimates within their error."""

from __future__ import annotations

import numpy as np
import pytest

from rag_cluster.config import Duplicates
from rag_cluster.index.minhash import (
    band_hashes,
    candidate_probability,
    fingerprint_of,
    rows_of_a_band,
    shingle_hashes,
    signatures,
)


@pytest.mark.parametrize(
    ("similarity", "probability"),
    [(0.2, 0.006), (0.3, 0.047), (0.4, 0.186), (0.5, 0.470), (0.6, 0.802), (0.7, 0.975)],
)
def test_the_s_curve_of_twenty_bands_of_five(similarity: float, probability: float) -> None:
    # Leskovec, Rajaraman, Ullman, figure 3.8
    assert candidate_probability(similarity, 20, 5) == pytest.approx(probability, abs=1e-3)


def test_bands_are_as_narrow_as_a_pair_at_the_threshold_needs() -> None:
    # .9^8 = .4305 and (1 - .4305)^16 = .0001; .9^9 = .3874 and (1 - .3874)^14 = .0011
    assert candidate_probability(0.9, 16, 8) == pytest.approx(0.99988, abs=1e-5)
    assert candidate_probability(0.9, 14, 9) == pytest.approx(0.99895, abs=1e-5)
    assert rows_of_a_band(0.9, 128) == 8
    assert rows_of_a_band(1.0, 128) == 128
    assert rows_of_a_band(0.01, 128) == 1


def words(first: int, last: int) -> str:
    return " ".join(f"w{i}" for i in range(first, last))


def test_the_share_of_equal_places_estimates_the_jaccard_similarity() -> None:
    config = Duplicates(shingle=1, permutations=1024)
    made, signed = signatures([words(0, 100), words(20, 120), words(200, 300)], config)
    assert signed.all()
    # 80 shared of 120; the standard deviation is sqrt(2/3 * 1/3 / 1024) = .015
    assert np.mean(made[0] == made[1]) == pytest.approx(80 / 120, abs=0.06)
    assert np.mean(made[0] == made[2]) < 0.01


def test_a_signature_is_of_the_set_of_shingles() -> None:
    config = Duplicates(shingle=2, min_words=1)
    made, _ = signatures(["a b a b a b", "B, a: b! A.", "a b a", "a b c"], config)
    assert (made[0] == made[1]).all()
    assert (made[0] == made[2]).all()
    assert not (made[0] == made[3]).all()
    assert len(shingle_hashes(["a", "b", "a", "b", "a"], 2)) == 2


def test_long_texts_are_signed_piece_by_piece() -> None:
    config = Duplicates(shingle=1)
    whole, _ = signatures([words(0, 25_000)], config)
    parts, _ = signatures([words(0, 11_000), words(11_000, 25_000)], config)
    np.testing.assert_array_equal(whole[0], parts.min(axis=0))


def test_short_texts_have_no_signature() -> None:
    made, signed = signatures(["", words(0, 19), words(0, 20)], Duplicates())
    assert signed.tolist() == [False, False, True]
    assert not made[:2].any()
    _, signed = signatures([words(0, 29), words(0, 30)], Duplicates(shingle=30))
    assert signed.tolist() == [False, True]


def test_bands_are_equal_where_all_their_rows_are() -> None:
    made = np.array([[1, 2, 3, 4, 5], [1, 2, 3, 9, 5], [2, 1, 3, 4, 0]], np.uint32)
    bands = band_hashes(made, 2)
    assert bands.shape == (3, 2)
    equal = bands[:, None, :] == bands[None, :, :]
    assert equal[0, 1].tolist() == [True, False]
    assert equal[0, 2].tolist() == [False, True]


def test_what_makes_signatures_is_named() -> None:
    same = Duplicates(near="none", threshold=0.5)
    assert fingerprint_of(same) == fingerprint_of(Duplicates())
    for other in ({"shingle": 4}, {"permutations": 64}, {"min_words": 5}, {"seed": 2}):
        assert fingerprint_of(Duplicates(**other)) != fingerprint_of(Duplicates())
