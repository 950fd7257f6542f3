"""Finding what a chunk must not cut: formulas, and fenced code that fits into a chunk."""

from __future__ import annotations

import re
from bisect import bisect_right

Span = tuple[int, int]

_OPEN = re.compile(
    r"(?<!\\)(?:\$\$?|\\\[|\\\(|\\begin\{(?P<name>(?:equation|align|alignat|gather|multline|eqnarray"
    r"|flalign|displaymath|math)\*?)\})"
)
# Inline, as Pandoc reads it: no space inside the dollars, no digit behind them ("$5 and $6").
_INLINE = re.compile(r"\$(?=[^\s$])(?:[^$\n\\]|\\[^\n]){1,300}?(?<!\s)\$(?![\d$])")
_BLANK_LINE = re.compile(r"\n[ \t]*\n")
# Beyond so many characters an opening sign is taken for a stray one.
_LONGEST_FORMULA = 5_000
_FENCE = re.compile(
    r"^[ \t]*(?P<mark>`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*(?P=mark)[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)


def find_fences(text: str) -> list[Span]:
    """Spans of fenced code (Markdown), from the line that opens to the line that closes it."""
    if "```" not in text and "~~~" not in text:
        return []
    return [match.span() for match in _FENCE.finditer(text)]


def find_formulas(text: str, fences: list[Span] | None = None) -> list[Span]:
    r"""Spans of LaTeX formulas, outside of the fences: $, $$, \(, \[ and the environments."""
    if "$" not in text and "\\" not in text:
        return []
    spans: list[Span] = []
    position = 0
    for start, end in [*(fences or []), (len(text), len(text))]:
        while opening := _OPEN.search(text, position, start):
            position = opening.end()
            closed = _closed(text, opening, start)
            if closed is not None:
                spans.append((opening.start(), closed))
                position = closed
        position = end
    return spans


def _closed(text: str, opening: re.Match[str], limit: int) -> int | None:
    """Where the formula ends that is opened there; None if it is none."""
    sign = opening.group()
    if sign == "$":
        inline = _INLINE.match(text, opening.start(), limit)
        return inline.end() if inline else None
    name = opening.group("name")
    close = f"\\end{{{name}}}" if name else {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}[sign]
    limit = min(limit, opening.end() + _LONGEST_FORMULA)
    if not name:
        # As in LaTeX there is no blank line in it; so one stray "$$" does not swallow a page.
        blank = _BLANK_LINE.search(text, opening.end(), limit)
        limit = blank.start() if blank else limit
    found = text.find(close, opening.end() + 1, limit)
    return found + len(close) if found >= 0 else None


def outside(positions: list[int], spans: list[Span]) -> list[int]:
    """The positions that are not strictly inside one of the spans (disjoint, in order)."""
    if not spans:
        return positions
    starts = [start for start, _ in spans]
    kept = []
    for position in positions:
        index = bisect_right(starts, position - 1) - 1
        if index < 0 or position >= spans[index][1]:
            kept.append(position)
    return kept
