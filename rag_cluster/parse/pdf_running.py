"""Running headers, footers and page numbers: lines at a page's edge that repeat across pages.

A line repeats when its text is the same, or the same but for one number that counts with the
pages. Other numbers are content: "Invoice 1001", "Invoice 1002" on one-page forms stay.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

from rag_cluster.parse.pdf_page import Line, Page, Segment

_DEPTH = 4  # lines from either edge that may be running lines
_MARGIN = 0.15  # of the page's height, for lines that are not the outermost
_WINDOW = 8  # pages before and after in which a line must repeat: headers change by chapter
_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b")
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


def find_running(pages: list[Page]) -> list[set[int]]:
    """For each page, the indexes of its lines that are running headers, footers or page numbers."""
    running: list[set[int]] = [set() for _ in pages]
    if len(pages) < 2:
        return running
    for side in (1, -1):
        edges = [_edge_lines(page, side) for page in pages]
        places: dict[str, list[tuple[int, float, bool]]] = {}
        for number, lines in enumerate(edges):
            for rank, (_, line, y) in enumerate(lines):
                for key in _keys(line, number):
                    places.setdefault(key, []).append((number, y, rank == 0))
        for number, lines in enumerate(edges):
            for rank, (index, line, y) in enumerate(lines):
                if not _repeats(line, number, y, rank, places, len(pages)):
                    break
                if _opens_table(pages[number].lines, index, side):
                    break
                if len(pages) <= 3 and not _stands_apart(pages[number].lines, index, side):
                    break
                running[number].add(index)
    return running


def find_repeated_stray(pages: list[Page]) -> set[str]:
    """Texts in another direction (watermarks, margin stamps) that stand on three pages or more."""
    counts: dict[str, int] = {}
    for page in pages:
        for text in {segment.text for segment in page.stray}:
            counts[text] = counts.get(text, 0) + 1
    return {text for text, count in counts.items() if count >= 3}


def _edge_lines(page: Page, side: int) -> list[tuple[int, Line, float]]:
    """(index, line, distance from the edge as a share of the height), outermost first."""
    indexes = range(len(page.lines)) if side == 1 else range(len(page.lines) - 1, -1, -1)
    found: list[tuple[int, Line, float]] = []
    for index in indexes[:_DEPTH]:
        line = page.lines[index]
        y = line[0].baseline / page.height
        distance = y if side == 1 else 1 - y
        if found and distance > _MARGIN:
            break
        found.append((index, line, distance))
    return found


def _keys(line: Line, page: int) -> Iterator[str]:
    """The line's text, and the text with each number in turn replaced by its lead over `page`."""
    text = " ".join([segment.text for segment in line]).casefold()
    if len(text) > 200:
        return
    yield text
    numbers = list(_NUMBER.finditer(text))
    for match in numbers if len(numbers) <= 6 else (numbers[0], numbers[-1]):
        value = _value(match[0])
        if value is not None:
            yield f"{text[: match.start()]}\0{value - page}{text[match.end() :]}"


def _value(token: str) -> int | None:
    if token.isdigit():
        return int(token) if len(token) < 6 else None
    values = [_ROMAN[c] for c in token]
    following = [*values[1:], 0]
    return sum(-a if a < b else a for a, b in zip(values, following, strict=True))


def _repeats(
    line: Line,
    page: int,
    y: float,
    rank: int,
    places: dict[str, list[tuple[int, float, bool]]],
    page_count: int,
) -> bool:
    needed = 2 if page_count <= 3 else 3
    for key in _keys(line, page):
        where = places[key]
        counts_pages = "\0" in key
        first = bisect_left(where, (page - _WINDOW,))
        last = bisect_left(where, (page + _WINDOW + 1,))
        near = {
            other
            for other, other_y, outermost in where[first:last]
            if abs(other_y - y) < 0.012 or (outermost and rank == 0 and counts_pages)
        }
        if len(near) >= needed:
            return True
    return False


def _opens_table(lines: list[Line], index: int, side: int) -> bool:
    """A header row repeated where a table runs over pages: cells, with aligned cells just below."""
    neighbour = index + 1
    if side == -1 or neighbour >= len(lines) or len(lines[index]) < 2 or len(lines[neighbour]) < 2:
        return False
    line, below = lines[index], lines[neighbour]
    if below[0].baseline - line[0].baseline > 2.5 * max(line[0].size, below[0].size):
        return False
    aligned = sum(any(_overlap(cell, other) for other in below) for cell in line)
    return aligned >= 2


def _overlap(a: Segment, b: Segment) -> bool:
    return a.x0 <= b.x1 and b.x0 <= a.x1


def _stands_apart(lines: list[Line], index: int, side: int) -> bool:
    """A gap wider than between lines of a paragraph lies between the line and the body."""
    inner = index + side
    if not 0 <= inner < len(lines):
        return False
    gap = abs(lines[inner][0].baseline - lines[index][0].baseline)
    return gap > 1.8 * max(lines[index][0].size, lines[inner][0].size)
