"""Sets of 128-bit hashes in flat arrays, so that millions of them travel to every worker.

A Python set takes some hundred bytes per member, and a copy of it in every process; this takes 16,
in memory that the processes of a machine share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


def digest(*parts: str) -> bytes:
    """16 bytes that name the parts (BLAKE2b, 128 bits)."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.digest()


def as_words(digests: Sequence[bytes]) -> Words:
    """uint64 [n, 2] of n digests of 16 bytes."""
    if not digests:
        return np.empty((0, 2), np.uint64)
    return np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)


class Hashes:
    """A set of digests, each with the place (0, 1, ...) that it had in the array it was made of.

    Of equal digests the first one's place is kept. Of two digests that differ only in their second
    half one is forgotten, and so is taken for unknown: with 10^9 members that is a chance of 3 %.
    """

    def __init__(self, words: Words) -> None:
        """`words`: uint64 [n, 2], as `as_words` gives them."""
        first, places = np.unique(words[:, 0], return_index=True)
        self._first: Words = first
        self._second: Words = words[places, 1]
        self._places: NDArray[np.int64] = places.astype(np.int64)

    @classmethod
    def of(cls, digests: Iterable[bytes]) -> Hashes:
        """The set of some digests."""
        return cls(as_words(list(digests)))

    def __len__(self) -> int:
        return len(self._first)

    def find(self, words: Words) -> NDArray[np.int64]:
        """The place of each digest, -1 where it is not a member; int64 [n] for uint64 [n, 2]."""
        if not len(self) or not len(words):
            return np.full(len(words), -1, np.int64)
        at = np.minimum(np.searchsorted(self._first, words[:, 0]), len(self) - 1)
        held = (self._first[at] == words[:, 0]) & (self._second[at] == words[:, 1])
        return np.where(held, self._places[at], -1)

    def holds(self, words: Words) -> NDArray[np.bool_]:
        """Whether each digest is a member; bool [n] for uint64 [n, 2]."""
        return self.find(words) >= 0


class Claimed:
    """Which texts some batch has taken on: recent ones in a dictionary, older ones in an array.

    Only the first halves of digests are kept. Of two that share it the second is taken for claimed;
    who gathers the results finds that it is missing, by the whole digest.
    """

    RECENT = 500_000

    def __init__(self) -> None:
        self._old = np.empty(0, np.uint64)
        self._recent: dict[int, bytes] = {}

    def claim(self, words: Words, batch: bytes) -> NDArray[np.bool_]:
        """For each digest (uint64 [n, 2]) whether the batch is the first to ask; bool [n].

        To a batch that asks again (its worker died) its own are new again.
        """
        hashes = words[:, 0]
        at = np.searchsorted(self._old, hashes)
        old = np.zeros(len(hashes), dtype=bool)
        inside = at < len(self._old)
        old[inside] = self._old[at[inside]] == hashes[inside]
        mine = [self._recent.setdefault(int(one), batch) == batch for one in hashes]
        if len(self._recent) > self.RECENT:
            recent = np.fromiter(self._recent, np.uint64, len(self._recent))
            self._old = np.union1d(self._old, recent)
            self._recent = {}
        first: NDArray[np.bool_] = np.array(mine, dtype=bool) & ~old
        return first
