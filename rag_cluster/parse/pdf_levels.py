"""The style of a heading and the levels that styles and numbers stand for."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from rag_cluster.parse.pdf_rows import Row

MAX_LEVEL = 6

Prominence = tuple[float, bool, bool, bool]

_DECIMAL = re.compile(r"(\d{1,3}(?:\.\d{1,3}){0,5})\.?\s+(?=[^\W\d_])")
_LETTERED = re.compile(r"([A-Z](?:\.\d{1,3}){1,4})\.?\s+(?=[^\W\d_])")
DIVISION = re.compile(
    r"(?:part|chapter|teil|kapitel|book)\s+(?:[ivxlc]+|\d{1,3}|[a-z])\b", re.IGNORECASE
)
ITEM = re.compile(
    r"(?:item|article|artikel|section|§)\s*(?:\d{1,3}(?:[a-z]|\.\d{2})?|[ivxlc]+)\b[.:]?",
    re.IGNORECASE,
)
_NOTE = re.compile(r"notes?\s+\d{1,2}\b", re.IGNORECASE)


@dataclass(slots=True)
class Mark:
    """Rows `first`..`last` (inclusive) are a heading. `title`: from the outline, else None."""

    first: int
    last: int
    level: int
    title: str | None = None


@dataclass(frozen=True, slots=True)
class Style:
    """What tells headings of one level from those of another; size in half points."""

    size: float
    capitals: bool
    bold: bool
    italic: bool

    @property
    def prominence(self) -> Prominence:
        """The greater, the higher the level."""
        return self.size, self.capitals, self.bold, not self.italic


def half_points(size: float) -> float:
    """The size rounded to half points: producers scale fonts by odd factors."""
    return round(size * 2) / 2


def style_of(row: Row) -> Style:
    """The style of a row."""
    text = row.text
    capitals = text.isupper() and sum(map(str.isupper, text)) >= max(4, 0.4 * len(text))
    return Style(half_points(row.size), capitals, row.bold, row.italic)


def depth_of(text: str) -> int | None:
    """Depth of the decimal number before a title: 3 for "3.2.1 Scope"; None without one."""
    match = _DECIMAL.match(text) or _LETTERED.match(text)
    return match[1].count(".") + 1 if match else None


def set_levels(marks: list[Mark], rows: list[Row]) -> None:
    """Set the level of each heading.

    In a document of parts and items these are the upper levels, and what follows ranks below them
    by style. Elsewhere a number gives its depth at once, and an unnumbered heading gets its level
    from its style's rank among the styles, those of numbered headings being known.
    """
    texts = [rows[mark.first].text for mark in marks]
    has_items = sum(1 for text in texts if ITEM.match(text)) >= 2
    base = 0
    if has_items:
        base = 1 + any(DIVISION.match(text) for text in texts)
    front: list[tuple[Mark, str]] = []
    inside: list[tuple[Mark, str]] = []
    begun = False  # before the first item stand the cover and the contents
    for mark, text in zip(marks, texts, strict=True):
        if DIVISION.match(text):
            mark.level = 1
        elif has_items and ITEM.match(text):
            mark.level, begun = base, True
        else:
            (inside if begun else front).append((mark, text))
    _rank_with_numbers(front, rows)
    _rank_below(base, inside, rows)
    for mark in marks:
        mark.level = min(mark.level, MAX_LEVEL)


def _rank_below(base: int, headings: list[tuple[Mark, str]], rows: list[Row]) -> None:
    """Levels under `base` by the rank of the style; a number's depth counts within its style."""
    # "Note 5" and "5. Leases" stand above headings of the same style without a number.
    keys = [
        (style_of(rows[mark.first]).prominence, bool(depth_of(text) or _NOTE.match(text)))
        for mark, text in headings
    ]
    rank = {key: i for i, key in enumerate(sorted(set(keys), reverse=True), start=1)}
    for (mark, text), key in zip(headings, keys, strict=True):
        mark.level = base + rank[key] + (depth_of(text) or 1) - 1


def _rank_with_numbers(headings: list[tuple[Mark, str]], rows: list[Row]) -> None:
    """Numbered headings get their depth; styles between theirs get the levels between."""
    depths: dict[Prominence, Counter[int]] = {}
    free: set[Prominence] = set()
    for mark, text in headings:
        style = style_of(rows[mark.first]).prominence
        depth = depth_of(text)
        if depth is None:
            free.add(style)
        else:
            mark.level = depth
            depths.setdefault(style, Counter())[depth] += 1
    fixed = {style: counts.most_common(1)[0][0] for style, counts in depths.items()}
    levels: dict[Prominence, int] = {}
    current = 0
    ranked = sorted(free | set(fixed), reverse=True)
    for i, style in enumerate(ranked):
        # More prominent than a numbered style means no deeper than it.
        deepest = min([fixed[s] for s in ranked[i:] if s in fixed], default=MAX_LEVEL)
        current = fixed.get(style, min(current + 1, deepest))
        levels[style] = current
    for mark, _ in headings:
        if mark.level == 0:
            mark.level = levels[style_of(rows[mark.first]).prominence]
