import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.hashes import Claimed, Hashes, Words, as_words, digest

DIGESTS = st.lists(st.binary(min_size=16, max_size=16), max_size=40)


def test_a_digest_tells_parts_apart() -> None:
    assert len(digest("a")) == 16
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("\ud800") == digest("\ud800")


@given(DIGESTS, DIGESTS)
def test_members_are_found_at_the_place_they_had_first(members: list[bytes], asked: list[bytes]):
    found = Hashes.of(members).find(as_words([*members, *asked])).tolist()
    expected = [members.index(one) if one in members else -1 for one in [*members, *asked]]
    firsts = {one[:8] for one in members}
    if len(firsts) == len(set(members)):  # no two members share their first half
        assert found == expected


def test_digests_that_share_a_half_are_not_taken_for_each_other() -> None:
    one, other = b"a" * 8 + b"b" * 8, b"a" * 8 + b"c" * 8
    assert Hashes.of([one]).holds(as_words([one, other])).tolist() == [True, False]
    assert Hashes.of([one, other]).holds(as_words([one])).tolist() == [True]


def test_an_empty_set_holds_nothing() -> None:
    assert len(Hashes.of([])) == 0
    assert Hashes.of([]).holds(as_words([b"x" * 16])).tolist() == [False]
    assert Hashes.of([b"x" * 16]).find(np.empty((0, 2), np.uint64)).tolist() == []


def words(*values: int) -> Words:
    return np.array([[value, 7] for value in values], dtype=np.uint64)


def test_a_text_belongs_to_the_batch_that_asked_first_and_may_ask_again() -> None:
    claimed = Claimed()
    assert claimed.claim(words(1, 2), b"a").tolist() == [True, True]
    assert claimed.claim(words(2, 3), b"b").tolist() == [False, True]
    assert claimed.claim(words(1, 2), b"a").tolist() == [True, True]


def test_claims_are_kept_when_they_are_many() -> None:
    claimed = Claimed()
    claimed.RECENT = 10
    for start in range(0, 100, 5):
        assert claimed.claim(words(*range(start, start + 5)), b"%d" % start).all()
    assert not claimed.claim(words(*range(100)), b"other").any()
    assert claimed.claim(words(100), b"other").all()
