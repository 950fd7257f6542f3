"""Running headers, footers and page numbers: lines at a page's edge that repeat across pages.

A line repeats when its text is the same, or the same but for one number that counts with the
pages. Other numbers are content: "Invoice 1001", "Invoice 1002" on one-page forms stay.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from rag_cluster.parse.pdf_page import Line, Page, Segment

_DEPTH = 4  # lines from either edge that may be running lines
_MARGIN = 0.12  # of the page's height, for lines that are not the outermost
_OUTER_MARGIN = 0.2  # ... for the outermost one
_COUNTING_MARGIN = 0.08  # ... for text with a number that counts: "Section 3" may be a heading
_WINDOW = 8  # pages before and after in which a line must repeat: headers change by chapter
_SAME_HEIGHT = 0.012  # of the page's height
_MAX_CHARACTERS = 200

_NUMBER = re.compile(r"\d+|\b[ivxlc]+\b")
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_PAGE_NUMBER = re.compile(
    r"\W*(?:page|seite|p\.|pag\.?|página|pagina|stran[aá]|第)?\W*(?:\d+|[ivxlc]+)\s*"
    r"(?:(?:of|von|de|di|/|\|)\s*\d+|页|頁|ページ)?\W*",
)
_TITLE_WORD = re.compile(
    r"(?:chapter|section|part|item|appendix|annex|article|exhibit|note|lesson|unit|step|figure|"
    r"table|question|kapitel|teil|abschnitt|anhang|schedule|volume|day|week)\W*$"
)


@dataclass(frozen=True, slots=True)
class _Edge:
    """A line near the page's edge; `distance` from it as a share of the height."""

    index: int
    text: str
    distance: float
    outermost: bool
    counts: bool  # a number in it may be the page's


def find_running(pages: list[Page]) -> list[set[int]]:
    """For each page, the indexes of its lines that are running headers, footers or page numbers."""
    running: list[set[int]] = [set() for _ in pages]
    if len(pages) < 2:
        return running
    for side in (1, -1):
        edges = [_edge_lines(page, side) for page in pages]
        places: dict[str, list[tuple[int, float, bool]]] = {}
        for number, lines in enumerate(edges):
            for edge in lines:
                for key in _keys(edge, number):
                    places.setdefault(key, []).append((number, edge.distance, edge.outermost))
        for number, lines in enumerate(edges):
            for edge in lines:
                if not _repeats(edge, number, places, len(pages)):
                    break
                if _belongs_to_body(pages[number].lines, edge, side, len(pages)):
                    break
                running[number].add(edge.index)
    return running


def find_repeated_stray(pages: list[Page]) -> set[str]:
    """Texts in another direction (watermarks, margin stamps) that stand on three pages or more."""
    counts: dict[str, int] = {}
    for page in pages:
        for text in {segment.text for segment in page.stray}:
            counts[text] = counts.get(text, 0) + 1
    return {text for text, count in counts.items() if count >= 3}


def _edge_lines(page: Page, side: int) -> list[_Edge]:
    """The lines nearest the edge, outermost first."""
    count = len(page.lines)
    indexes = range(count) if side == 1 else range(count - 1, -1, -1)
    sizes = sorted(line[0].size for line in page.lines)
    found: list[_Edge] = []
    for index in indexes[:_DEPTH]:
        line = page.lines[index]
        y = line[0].baseline / page.height
        distance = y if side == 1 else 1 - y
        if found and distance > _MARGIN:
            break
        text = " ".join([segment.text for segment in line]).casefold()
        if len(text) > _MAX_CHARACTERS:
            break
        plain = bool(_PAGE_NUMBER.fullmatch(text))
        small = line[0].size <= 1.2 * sizes[count // 2]
        counts = plain or (small and distance < _COUNTING_MARGIN)
        found.append(_Edge(index, text, distance, not found, counts))
    return found


def _keys(edge: _Edge, page: int) -> Iterator[str]:
    """The line's text, and the text with each number in turn replaced by its lead over `page`."""
    text = edge.text
    yield text
    if not edge.counts:
        return
    numbers = list(_NUMBER.finditer(text))
    for match in numbers if len(numbers) <= 6 else (numbers[0], numbers[-1]):
        value = _value(match[0])
        if value is not None and not _TITLE_WORD.search(text[: match.start()]):
            yield f"{text[: match.start()]}\0{value - page}{text[match.end() :]}"


def _value(token: str) -> int | None:
    if token.isdigit():
        return int(token) if len(token) < 6 else None
    values = [_ROMAN[c] for c in token]
    following = [*values[1:], 0]
    return sum(-a if a < b else a for a, b in zip(values, following, strict=True))


def _repeats(
    edge: _Edge,
    page: int,
    places: dict[str, list[tuple[int, float, bool]]],
    page_count: int,
) -> bool:
    """The line stands on enough of the pages around: at the same height, or as their number."""
    needed = 2 if page_count <= 3 else 3
    for key in _keys(edge, page):
        is_number = "\0" in key and edge.outermost
        if not is_number and edge.distance > _OUTER_MARGIN:
            continue
        where = places[key]
        first = bisect_left(where, (page - _WINDOW,))
        last = bisect_left(where, (page + _WINDOW + 1,))
        near = {
            other
            for other, distance, outermost in where[first:last]
            if abs(distance - edge.distance) < _SAME_HEIGHT or (outermost and is_number)
        }
        if len(near) >= needed:
            return True
    return False


def _belongs_to_body(lines: list[Line], edge: _Edge, side: int, page_count: int) -> bool:
    """The line is the head of a table, or stands nearer to the body than to the page's edge."""
    if side == 1 and _opens_table(lines, edge.index):
        return True
    inner = edge.index + side
    if not 0 <= inner < len(lines):
        return page_count <= 3
    line = lines[edge.index]
    inner_gap = abs(lines[inner][0].baseline - line[0].baseline)
    if not edge.outermost:
        outer_gap = abs(lines[edge.index - side][0].baseline - line[0].baseline)
        return outer_gap > 1.2 * inner_gap
    apart = inner_gap > 1.8 * max(line[0].size, lines[inner][0].size)
    return page_count <= 3 and not apart


def _opens_table(lines: list[Line], index: int) -> bool:
    """A header row repeated where a table runs over pages: cells, with aligned cells just below."""
    if index + 1 >= len(lines) or len(lines[index]) < 2 or len(lines[index + 1]) < 2:
        return False
    line, below = lines[index], lines[index + 1]
    if below[0].baseline - line[0].baseline > 2.5 * max(line[0].size, below[0].size):
        return False
    return sum([any(_overlap(cell, other) for other in below) for cell in line]) >= 2


def _overlap(a: Segment, b: Segment) -> bool:
    return a.x0 <= b.x1 and b.x0 <= a.x1
