"""Reading order: pages set in columns are read column by column, tables row by row.

A gutter is a vertical strip which few lines cross. It parts columns only where the text on both
sides runs on like prose: lines that fill their column and continue one another. Rows of a table
share baselines and gutters too, but their cells are short, numeric or begin anew in each row.
Lines that cross the gutter (title, abstract, wide figures) part the page into bands; each band is
read left, then right: one step of the recursive XY cut (Nagy, Seth and Viswanathan 1992).
"""

from __future__ import annotations

from itertools import accumulate

from rag_cluster.parse.pdf_page import Line

_BIN = 2.0  # points
_MIN_GUTTER = 6.0  # points
_MIN_LINES = 4
_DEPTH = 2  # columns within columns: up to four beside one another
_SAME_GUTTER = 15.0  # points
_MIN_CHARACTERS = 9  # of a segment, on average

Region = tuple[list[Line], float, float]
"""Lines in reading order, and the left and right edge of the column they stand in."""


def find_gutter(lines: list[Line], depth: int = _DEPTH) -> float | None:
    """The x of the gutter between two columns (or groups of columns) of prose; None without one."""
    gutter = _emptiest_strip(lines)
    if gutter is None:
        return None
    bands = _bands(lines, gutter)
    for side in (1, 2):
        column = [line for band in bands for line in band[side]]
        if not _is_prose(column) and (depth == 1 or find_gutter(column, depth - 1) is None):
            return None
    return gutter


def usual_gutter(gutters: list[float | None]) -> float | None:
    """Where most pages of the document have their gutter; None unless two fifths of them agree."""
    found = sorted(gutter for gutter in gutters if gutter is not None)
    if len(found) < max(2, 0.4 * len(gutters)):
        return None
    middle = found[len(found) // 2]
    agreeing = sum(abs(gutter - middle) < _SAME_GUTTER for gutter in found)
    return middle if agreeing >= max(2, 0.4 * len(gutters)) else None


def reading_order(
    lines: list[Line], gutter: float | None, usual: float | None = None
) -> list[Region]:
    """Parts of the page in reading order; a page in one column is one region.

    `gutter` is the page's own, `usual` the document's: a page of a document in columns may hold
    tables, or end early, and show less prose than `find_gutter` asks for.
    """
    if gutter is None and usual is not None and _parts_page(lines, usual):
        gutter = usual
    if gutter is None:
        return [(lines, *_edges(lines))] if lines else []
    return _split(lines, gutter, _DEPTH)


def _parts_page(lines: list[Line], gutter: float) -> bool:
    crossing = sum(any(s.x0 < gutter < s.x1 for s in line) for line in lines)
    left = [kept for line in lines if (kept := [s for s in line if s.x1 <= gutter])]
    right = [kept for line in lines if (kept := [s for s in line if s.x0 >= gutter])]
    few = crossing <= 0.25 * len(lines)
    return few and bool(left and right) and (_is_prose(left) or _is_prose(right))


def _edges(lines: list[Line]) -> tuple[float, float]:
    if not lines:
        return 0.0, 0.0
    return min([line[0].x0 for line in lines]), max([s.x1 for line in lines for s in line])


def _split(lines: list[Line], gutter: float, depth: int) -> list[Region]:
    """Regions on both sides of the gutter, band by band, columns within columns included."""
    bands = _bands(lines, gutter)
    page_edges = _edges(lines)
    side_edges = [_edges([line for band in bands for line in band[side]]) for side in (1, 2)]
    regions: list[Region] = []
    for full_width, left, right in bands:
        if full_width:
            regions.append((full_width, *page_edges))
        elif _is_table_band(left, right):
            regions.append(([a + b for a, b in _pairs(left, right)], *page_edges))
        else:
            for side, edges in zip((left, right), side_edges, strict=True):
                inner = find_gutter(side, depth - 1) if depth > 1 else None
                if inner is not None:
                    regions += _split(side, inner, depth - 1)
                elif side:
                    regions.append((side, *edges))
    return regions


def _emptiest_strip(lines: list[Line]) -> float | None:
    """Where the middle of the strip that the fewest segments cross is (x); None without one."""
    count = sum(map(len, lines))
    if count < 2 * _MIN_LINES:
        return None
    if sum([len(s.text) for line in lines for s in line]) < _MIN_CHARACTERS * count:
        return None  # the short cells of a table
    left, right = _edges(lines)
    bins = int((right - left) / _BIN) + 1
    if bins < 40:
        return None
    change = [0] * (bins + 1)
    for line in lines:
        for segment in line:
            change[int((segment.x0 - left) / _BIN)] += 1
            change[int((segment.x1 - left) / _BIN) + 1] -= 1
    crossing = list(accumulate(change))
    low, high = bins // 5, bins - bins // 5
    least = min(crossing[low:high])
    if least > 0.4 * len(lines):
        return None
    best, run_start = (0, 0), None
    for i in range(low, high + 1):
        if i < high and crossing[i] == least:
            run_start = i if run_start is None else run_start
        elif run_start is not None:
            best = max(best, (i - run_start, run_start))
            run_start = None
    if best[0] * _BIN < _MIN_GUTTER:
        return None
    return left + (best[1] + best[0] / 2) * _BIN


def _bands(lines: list[Line], gutter: float) -> list[tuple[list[Line], list[Line], list[Line]]]:
    """(lines across the gutter, lines left of it, lines right of it); one kind in each band."""
    bands: list[tuple[list[Line], list[Line], list[Line]]] = []
    for line in lines:
        crosses = any(s.x0 < gutter < s.x1 for s in line)
        if not bands or bool(bands[-1][0]) != crosses:
            bands.append(([], [], []))
        if crosses:
            bands[-1][0].append(line)
            continue
        left = [s for s in line if s.x1 <= gutter]
        right = [s for s in line if s.x0 >= gutter]
        if left:
            bands[-1][1].append(left)
        if right:
            bands[-1][2].append(right)
    return bands


def _pairs(left: list[Line], right: list[Line]) -> list[tuple[Line, Line]]:
    """Lines of both sides joined again by their baseline, from top to bottom."""
    pairs: list[tuple[Line, Line]] = []
    i = j = 0
    while i < len(left) or j < len(right):
        distance = 0.0
        if i < len(left) and j < len(right):
            distance = left[i][0].baseline - right[j][0].baseline
            near = abs(distance) <= 0.4 * left[i][0].size
        else:
            near, distance = False, -1.0 if i < len(left) else 1.0
        take_left, take_right = near or distance < 0, near or distance > 0
        pairs.append((left[i] if take_left else [], right[j] if take_right else []))
        i, j = i + take_left, j + take_right
    return pairs


def _is_table_band(left: list[Line], right: list[Line]) -> bool:
    """A wide table on a page in columns: short cells on both sides, row by row."""
    if len(left) < 2 or len(right) < 2:
        return False
    for side in (left, right):
        pieces = [segment for line in side for segment in line]
        if sum([segment.text.count(" ") + 1 for segment in pieces]) > 3.5 * len(pieces):
            return False
    return sum(map(len, left)) + sum(map(len, right)) > 2 * max(len(left), len(right))


def _is_prose(lines: list[Line]) -> bool:
    """Most of the text is lines that fill their column and read on from one to the next.

    Tables and figures within the column do not count: their rows are short or in pieces.
    """
    left, right = _edges(lines)
    full = [
        line for line in lines if len(line) <= 2 and line[-1].x1 - line[0].x0 > 0.6 * (right - left)
    ]
    if len(full) < _MIN_LINES:
        return False
    text = "".join([segment.text for line in full for segment in line])
    everything = sum([len(segment.text) for line in lines for segment in line])
    letters = sum(map(str.isalpha, text)) / len(text)
    if len(text) < 0.5 * everything or letters < 0.65:
        return False
    words = sum([s.text.count(" ") + 1 for line in full for s in line]) / len(full)
    continued = sum([line[0].text[0].islower() for line in full]) / len(full)
    if text.lower() == text.upper():  # a script without case, perhaps without blanks
        return len(text) / len(full) >= 8
    return (continued >= 0.25 and words >= 3) or words >= 4.5
