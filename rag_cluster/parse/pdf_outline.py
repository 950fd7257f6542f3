"""Headings from the PDF's outline, where its titles are found on the pages that they point to."""

from __future__ import annotations

from typing import Any

from rag_cluster.parse.pdf_levels import Mark
from rag_cluster.parse.pdf_rows import Row

_MIN_MATCHED = 0.6  # of the outline's entries
_MAX_PAGES_PER_ENTRY = 12  # a sparser outline says less than the typography
_MAX_ROWS = 4  # of one title
_DEEPEST = 6


def read_outline(document: Any) -> list[tuple[int, str, int]]:
    """(level, title, page index) of each entry that points to a page; [] if it is broken."""
    try:
        entries = document.get_toc(simple=True)
    except (RuntimeError, ValueError, IndexError, KeyError, TypeError):
        return []
    return [
        (level, title, page - 1) for level, title, page in entries if page >= 1 and title.strip()
    ]


def match_outline(
    outline: list[tuple[int, str, int]], rows: list[Row], page_count: int
) -> list[Mark] | None:
    """Headings by the outline, or None where it is not usable.

    It is usable when it has two entries or more, not fewer than one for each dozen pages, and at
    least 60 % of its titles are found as rows on the target page or its neighbours.
    """
    if len(outline) < 2 or page_count > _MAX_PAGES_PER_ENTRY * len(outline):
        return None
    first_row: dict[int, int] = {}
    for index, row in enumerate(rows):
        first_row.setdefault(row.page, index)
    plain = [_normalise(row.text) for row in rows]
    lowest = min(level for level, _, _ in outline)
    marks: list[Mark] = []
    after = 0
    for level, title, page in outline:
        found = _find(_normalise(title), page, rows, plain, first_row, after)
        if found is not None:
            depth = min(level - lowest + 1, _DEEPEST)
            marks.append(Mark(*found, depth, " ".join(title.split())))
            after = found[1] + 1
    if len(marks) < _MIN_MATCHED * len(outline):
        return None
    return marks


def _normalise(text: str) -> str:
    return "".join([c for c in text.casefold() if c.isalnum()])


def _find(
    title: str, page: int, rows: list[Row], plain: list[str], first_row: dict[int, int], after: int
) -> tuple[int, int] | None:
    """(first, last) row of the title, on the target page, else on the next or the one before."""
    if not title:
        return None
    bare = title.lstrip("0123456789")
    for candidate in (page, page + 1, page - 1):
        index = max(first_row.get(candidate, len(rows)), after)
        while index < len(rows) and rows[index].page == candidate:
            last = _match_at(index, {title, bare} - {""}, rows, plain)
            if last is not None:
                return index, last
            index += 1
    return None


def _match_at(index: int, titles: set[str], rows: list[Row], plain: list[str]) -> int | None:
    """Index of the last row if the rows from `index` on read like the title."""
    text = ""
    for last in range(index, min(index + _MAX_ROWS, len(rows))):
        if rows[last].page != rows[index].page:
            return None
        text += plain[last]
        if text in titles or text.lstrip("0123456789") in titles:
            return last
        if not any(t.startswith((text, text.lstrip("0123456789"))) for t in titles):
            return None
    return None
