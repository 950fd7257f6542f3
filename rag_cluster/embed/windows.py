"""Windows of a document: the stretches that an encoder reads at once, for its chunks' sake."""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from rag_cluster.models.tokenizer import Tokenizer

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Text:
    """A text, the starts of its tokens, and how many of them a window has room for."""

    text: str
    starts: list[int]
    tokenizer: Tokenizer
    room: int

    def token(self, position: int) -> int:
        """The first token that starts at a position or behind it."""
        return bisect_left(self.starts, position)

    def window(self, first: int, after: int) -> Span:
        """The tokens [first, after) without white space at their ends.

        Some tokenizers make more tokens of a text alone than inside of another; then it ends
        earlier.
        """
        start, end = self._at(first), self._at(after)
        inside = self.text[start:end]
        start += len(inside) - len(inside.lstrip())
        end = start + len(inside.strip())
        excess = self.tokenizer.count([self.text[start:end]])[0] - self.room
        if excess > 0 and after - excess > first:
            return self.window(first, after - excess)
        return start, end

    def _at(self, token: int) -> int:
        return self.starts[token] if token < len(self.starts) else len(self.text)


def windows_around(
    text: str, spans: Sequence[Span], tokenizer: Tokenizer, room: int, overlap: int
) -> list[Span]:
    """For each span of a text the window [start, end) of at most `room` tokens to read it in.

    A text that fits is one window. Else windows begin every `room - overlap` tokens, and a span
    belongs to the one in which its nearer edge is farthest off; where the text begins and ends
    there is no edge. A span that lies in none of them is the middle of its own, and one that is
    larger than `room` is its own window, of which an encoder reads the beginning.
    """
    starts = [start for start, _ in tokenizer.spans(text)]
    marked = _Text(text, starts, tokenizer, room)
    last = max(0, len(starts) - room)
    grid = [marked.window(first, first + room) for first in range(0, last, room - overlap)]
    grid.append(marked.window(last, len(starts)))
    begins = [start for start, _ in grid]
    most = room // (room - overlap) + 2  # windows that have one place in common
    chosen: list[Span] = []
    for span in spans:
        after = bisect_right(begins, span[0])
        near = grid[max(0, after - most) : after]
        holding = [window for window in near if span[1] <= window[1]]
        if holding:
            chosen.append(max(holding, key=functools.partial(_margin, span, grid)))
        else:
            chosen.append(_own(marked, span))
    return chosen


def _margin(span: Span, grid: list[Span], window: Span) -> float:
    """Characters from the span to the nearer edge of its window."""
    before = span[0] - window[0] if window[0] > grid[0][0] else float("inf")
    behind = window[1] - span[1] if window[1] < grid[-1][1] else float("inf")
    return min(before, behind)


def _own(marked: _Text, span: Span) -> Span:
    first, after = marked.token(span[0]), marked.token(span[1])
    spare = marked.room - (after - first)
    if spare <= 0:
        return span
    begin = max(0, first - spare // 2)
    window = marked.window(begin, begin + marked.room)
    return window if window[0] <= span[0] and span[1] <= window[1] else span
