"""Cutting a span of text into pieces of at most so many tokens, at the best breaks there are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from rag_cluster.chunk.document import Document, Piece

# A level of breaks, and which part of the room behind the overlap must be filled to end at one.
Level = tuple[list[int], float]


@dataclass(frozen=True, slots=True)
class Rules:
    """How text is cut. Sizes are in tokens.

    `levels` are tried in order, and the last break of a level that leaves the piece full enough is
    taken. `starts` are the breaks at which an overlap may begin, in order. A rest smaller than
    `min_size` is avoided by ending the piece before it earlier.
    """

    size: int
    overlap: int
    min_size: int
    levels: tuple[Level, ...]
    starts: tuple[list[int], ...]


def pack(
    document: Document, start: int, end: int, rules: Rules, kind: str = "fragment"
) -> list[Piece]:
    """Pieces that cover [start, end) in order, each of at most `rules.size` tokens.

    Only where no break lies within the size (inside a formula) a piece is larger; it is marked
    `whole`. Neighbours share up to `rules.overlap` tokens.
    """
    start, end = document.trim(start, end)
    pieces: list[Piece] = []
    begin = done = start
    while done < end:
        cut = _end(document, begin, done, end, rules)
        if cut is None and begin < done:
            begin = done  # what comes next leaves no room for an overlap
            continue
        if cut is None:
            cut = _after(rules.levels[-1][0], document.ruler.reach(begin, rules.size), end)
        first, last = document.trim(begin, cut)
        if last > (pieces[-1].end if pieces else start):
            whole = document.ruler.count(first, last) > rules.size
            pieces.append(Piece(first, last, kind, whole=whole))
        done, begin = cut, _overlap(document, begin, cut, rules)
    return pieces


def _end(document: Document, begin: int, done: int, end: int, rules: Rules) -> int | None:
    """Where the piece that begins at `begin` ends, after `done`; None if it can be nowhere."""
    ruler, size = document.ruler, rules.size
    reach = ruler.reach(begin, size)
    if reach >= end:
        return end
    rest = ruler.count(begin, end)
    least = min(rules.min_size, size // 2)
    room = size - ruler.count(begin, done)
    limits = [reach]
    if size < rest < size + least:
        limits.insert(0, ruler.reach(begin, rest - least))
    for limit in limits:
        for breaks, fill in rules.levels:
            floor = max(done, ruler.reach(done, int(room * fill)) - 1)
            found = _latest(breaks, floor, limit)
            if found is not None:
                return found
    return None


def _overlap(document: Document, begin: int, cut: int, rules: Rules) -> int:
    """Where the next piece begins, so that it shares the end of this one."""
    earliest = max(document.ruler.back(cut, rules.overlap), begin + 1)
    for breaks in rules.starts:
        index = bisect_left(breaks, earliest)
        if index < len(breaks) and breaks[index] < cut:
            return breaks[index]
    return cut


def _latest(breaks: list[int], after: int, limit: int) -> int | None:
    index = bisect_right(breaks, limit) - 1
    return breaks[index] if index >= 0 and breaks[index] > after else None


def _after(breaks: list[int], position: int, end: int) -> int:
    index = bisect_right(breaks, position)
    return min(breaks[index], end) if index < len(breaks) else end
