"""Finding what a chunk must not cut: formulas, and fenced code that fits into a chunk."""

from __future__ import annotations

import re
from bisect import bisect_right

Span = tuple[int, int]

# A display formula has no blank line in it, as in LaTeX; so one stray "$$" does not swallow a page.
_WITHIN = r"(?:(?!\n[ \t]*\n).){1,5000}?"
_FORMULA = re.compile(
    r"(?<!\\)\$\$(?=[^$])" + _WITHIN + r"(?<!\\)\$\$"
    r"|\\\[" + _WITHIN + r"\\\]"
    r"|\\\(" + _WITHIN + r"\\\)"
    r"|\\begin\{(?P<name>equation|align|alignat|gather|multline|eqnarray|flalign|displaymath|math)"
    r"(?P<star>\*?)\}.{1,20000}?\\end\{(?P=name)(?P=star)\}"
    # Inline, as Pandoc reads it: no space inside the dollars, no digit behind them ("$5 and $6").
    r"|(?<![\\$])\$(?=[^\s$])(?:[^$\n\\]|\\[^\n]){1,300}?(?<!\s)\$(?![\d$])",
    re.DOTALL,
)
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
    edge = 0
    for start, end in [*(fences or []), (len(text), len(text))]:
        spans.extend(match.span() for match in _FORMULA.finditer(text, edge, start))
        edge = end
    return spans


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
