"""Chunks that end where the subject changes, as the vectors of the sentences tell it.

Adjacent blocks of sentences are compared at every gap, and the text is cut where they are least
alike: M. A. Hearst, TextTiling: Segmenting Text into Multi-paragraph Subtopic Passages
(Computational Linguistics 23(1), 1997), with sentence embeddings in place of her word counts and a
percentile of the similarities as threshold, as G. Kamradt, 5 Levels of Text Splitting (2023), cuts.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np

from rag_cluster.chunk.body import body_pieces, runs_of
from rag_cluster.chunk.breaks import next_character
from rag_cluster.chunk.document import Document, Piece
from rag_cluster.chunk.pack import Rules, pack
from rag_cluster.config import Chunk, Semantic
from rag_cluster.models.ports import Encoder, Vectors

# Vectors of a text differ in their last bits with what was encoded beside it.
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Links:
    """The gaps between sentences at which a document may be cut, in order.

    `cosines` are the likenesses of what stands on either side of each position. Where one is below
    `threshold` the subject changes.
    """

    positions: list[int]
    cosines: list[float]
    threshold: float


def find_links(document: Document, settings: Semantic, encoder: Encoder) -> Links:
    """The gaps between the sentences outside of tables; a heading belongs to what follows it.

    The two sides of a gap are the means of the unit vectors of up to `window` sentences. All
    sentences of the document are encoded in one call, so that no other document plays a part.
    """
    texts: list[str] = []
    gaps: list[tuple[int, int, int, int]] = []  # position; first, number and end of its sentences
    candidates = _candidates(document)
    for start, end in _texts(document):
        edges = [start, *_between(candidates, start, end), end]
        first, last = len(texts), len(texts) + len(edges) - 1
        texts += [document.text[a:b].strip() for a, b in itertools.pairwise(edges)]
        gaps += [(edges[i], first, first + i, last) for i in range(1, len(edges) - 1)]
    if not gaps:
        return Links([], [], 0.0)
    vectors = _unit(encoder.encode(texts, "passage"))
    cosines = [
        _likeness(vectors, max(first, at - settings.window), at, min(end, at + settings.window))
        for _, first, at, end in gaps
    ]
    threshold = settings.threshold
    if threshold is None:
        threshold = float(np.percentile(cosines, settings.percentile))
    return Links([position for position, *_ in gaps], cosines, threshold)


def semantic(document: Document, settings: Chunk, links: Links) -> list[Piece]:
    """Whole sentences up to a change of subject; tables are their own chunks.

    What is larger than `size` is cut again at its weakest link, and what is under `min_size` joins
    the neighbour it is more like, as far as the size allows. Only a sentence that is larger than
    the size by itself is cut at a word.
    """
    breaks = document.breaks
    rules = Rules(
        size=settings.size,
        overlap=0,
        min_size=settings.min_size,
        levels=((breaks.words, 0.5), (breaks.tokens, 0.0)),
        starts=(),
    )
    cut = functools.partial(_cut, links=links)
    return body_pieces(document, 0, len(document.text), rules, cut=cut)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A text between tables: `edges` of its sentences, and `cosines` at those inside (from 1)."""

    document: Document
    edges: list[int]
    cosines: list[float]

    def tokens(self, first: int, end: int) -> int:
        return self.document.ruler.count(self.edges[first], self.edges[end])

    def reach(self, first: int, size: int) -> int:
        """The last edge up to which there are at most `size` tokens from another."""
        return bisect_right(self.edges, self.document.ruler.reach(self.edges[first], size)) - 1


def _cut(document: Document, start: int, end: int, rules: Rules, links: Links) -> list[Piece]:
    """Pieces of a text without tables."""
    start, end = document.trim(start, end)
    low, high = bisect_right(links.positions, start), bisect_left(links.positions, end)
    stretch = _Stretch(
        document,
        [start, *links.positions[low:high], end],
        [1.0, *links.cosines[low:high], 1.0],
    )
    last = len(stretch.edges) - 1
    weak = [i for i in range(1, last) if stretch.cosines[i] < links.threshold]
    bounds = [0, *weak, last]
    parts = [
        part
        for first, after in itertools.pairwise(bounds)
        for part in _fitted(stretch, first, after, rules)
    ]
    pieces: list[Piece] = []
    for first, after in _joined(stretch, parts, rules):
        span = document.trim(stretch.edges[first], stretch.edges[after])
        if stretch.tokens(first, after) > rules.size:
            pieces.extend(pack(document, *span, rules))
        elif span[0] < span[1]:
            pieces.append(Piece(*span, "fragment"))
    return pieces


def _fitted(stretch: _Stretch, first: int, end: int, rules: Rules) -> list[tuple[int, int]]:
    """The sentences [first, end) in parts of at most the size, each cut at its weakest link."""
    parts: list[tuple[int, int]] = []
    least = min(rules.min_size, rules.size // 2)
    while end - first > 1 and stretch.tokens(first, end) > rules.size:
        inside = range(first + 1, stretch.reach(first, rules.size) + 1)
        good = [i for i in inside if stretch.tokens(first, i) >= least]
        weakest = min(good, key=lambda i: stretch.cosines[i], default=first + 1)
        parts.append((first, weakest))
        first = weakest
    return [*parts, (first, end)]


def _joined(stretch: _Stretch, parts: list[tuple[int, int]], rules: Rules) -> list[tuple[int, int]]:
    """The parts, of which small ones have joined the neighbour that they are more like."""
    joined: list[tuple[int, int]] = []
    coming = parts[::-1]
    while coming:
        first, end = coming.pop()
        if stretch.tokens(first, end) >= rules.min_size:
            joined.append((first, end))
            continue
        before = bool(joined) and stretch.tokens(joined[-1][0], end) <= rules.size
        behind = bool(coming) and stretch.tokens(first, coming[-1][1]) <= rules.size
        if before and (not behind or stretch.cosines[first] >= stretch.cosines[end]):
            joined[-1] = (joined[-1][0], end)
        elif behind:
            coming[-1] = (first, coming[-1][1])
        else:
            joined.append((first, end))
    return joined


def _texts(document: Document) -> list[tuple[int, int]]:
    runs = runs_of(document, 0, len(document.text))
    return [(run.start, run.end) for run in runs if run.table is None]


def _candidates(document: Document) -> list[int]:
    """Starts of sentences, without those right under a heading."""
    under = {
        next_character(document.text, section.body)
        for section in document.sections
        if section.body > section.start
    }
    return [position for position in document.breaks.sentences if position not in under]


def _between(positions: list[int], start: int, end: int) -> list[int]:
    return positions[bisect_right(positions, start) : bisect_left(positions, end)]


def _likeness(vectors: Vectors, first: int, at: int, end: int) -> float:
    before, after = vectors[first:at].sum(axis=0), vectors[at:end].sum(axis=0)
    norms = float(np.linalg.norm(before) * np.linalg.norm(after))
    return round(float(before @ after) / norms, DIGITS) if norms > 0 else 0.0


def _unit(vectors: Vectors) -> Vectors:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.maximum(norms, np.float32(1e-12))
    return unit
