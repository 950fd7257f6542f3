"""Steps that fit, and claims on texts to encode."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rag_cluster.steps import _Claimed


def words(*values: int) -> NDArray[np.uint64]:
    return np.array(values, dtype=np.uint64)


def test_a_text_belongs_to_the_batch_that_asked_first_and_may_ask_again() -> None:
    claimed = _Claimed()
    assert claimed.claim(words(1, 2), b"a").tolist() == [True, True]
    assert claimed.claim(words(2, 3), b"b").tolist() == [False, True]
    assert claimed.claim(words(1, 2), b"a").tolist() == [True, True]


def test_claims_are_kept_when_they_are_many() -> None:
    claimed = _Claimed()
    claimed.RECENT = 10
    for start in range(0, 100, 5):
        assert claimed.claim(words(*range(start, start + 5)), b"%d" % start).all()
    assert not claimed.claim(words(*range(100)), b"other").any()
    assert claimed.claim(words(100), b"other").all()
