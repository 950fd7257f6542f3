"""A stratified sample, drawn one chunk at a time, with the next of the stratum for one that failed.

Strata take turns, and within a stratum its documents do (equal allocation; Cochran, Sampling
Techniques, ch. 5): a document of a thousand chunks is asked about as often as one of two, until the
short one has none left. Which chunk of a document, and whose turn is first, is random by the seed.
"""

from __future__ import annotations

import itertools
from collections import deque

import numpy as np
from numpy.typing import NDArray

from rag_cluster.questions.frame import Frame


class Draw:
    """Gives each chunk of a frame at most once."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame
        # Chunks by document, within it in random order; each document has a stretch of that.
        self._order = np.lexsort((frame.key, frame.document))
        ends = np.cumsum(np.bincount(frame.document, minlength=len(frame.document_key)))
        self._ends: NDArray[np.int64] = ends.astype(np.int64)
        self._next: NDArray[np.int64] = np.concatenate([[0], self._ends[:-1]]).astype(np.int64)
        by_key = np.lexsort((frame.document_key, frame.stratum))
        starts = np.searchsorted(frame.stratum[by_key], np.arange(len(frame.strata) + 1))
        self._strata = [_Stratum(by_key[first:last]) for first, last in itertools.pairwise(starts)]
        self._turns = deque(int(stratum) for stratum in np.argsort(frame.stratum_key))

    def next(self) -> int | None:
        """A chunk of the stratum and the document whose turn it is; None where none is left."""
        while self._turns:
            stratum = self._turns.popleft()
            chunk = self._of_stratum(stratum)
            if chunk is not None:
                self._turns.append(stratum)
                return chunk
        return None

    def after(self, chunk: int) -> int | None:
        """One in place of a chunk: of its document, else of its stratum, else of any."""
        document = int(self._frame.document[chunk])
        if self._next[document] < self._ends[document]:
            return self._take(document)
        found = self._of_stratum(int(self._frame.stratum[document]))
        return self.next() if found is None else found

    def _of_stratum(self, stratum: int) -> int | None:
        document = self._strata[stratum].next(self._next, self._ends)
        return None if document is None else self._take(document)

    def _take(self, document: int) -> int:
        chunk = int(self._order[self._next[document]])
        self._next[document] += 1
        return chunk


class _Stratum:
    """The documents of a stratum, which take turns in a fixed order."""

    def __init__(self, documents: NDArray[np.int64]) -> None:
        self._documents = documents
        self._at = 0

    def next(self, begun: NDArray[np.int64], ends: NDArray[np.int64]) -> int | None:
        """The next document that has chunks left: `begun` < `ends` (int64 [d])."""
        while len(self._documents):
            if self._at == len(self._documents):
                left = begun[self._documents] < ends[self._documents]
                self._documents = self._documents[left]
                self._at = 0
                continue
            document = int(self._documents[self._at])
            self._at += 1
            if begun[document] < ends[document]:
                return document
        return None
