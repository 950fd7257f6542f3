"""Reading order: pages set in columns are read column by column, tables row by row.

A gutter is a vertical strip which few lines cross. It parts columns only where the text on both
sides runs on like prose: lines that fill their column and continue one another. Rows of a table
share baselines and gutters too, but their cells are short, numeric or begin anew in each row.
Lines that cross the gutter (title, abstract, wide figures) part the page into bands; each band is
read left, then right: one step of the recursive XY cut (Nagy, Seth and Viswanathan 1992).
"""

from __future__ import annotations

from rag_cluster.parse.pdf_page import Line

_BIN = 2.0  # points
_MIN_GUTTER = 6.0  # points
_MIN_LINES = 4
_DEPTH = 3
_MIN_CHARACTERS = 9  # of a segment, on average

Region = tuple[list[Line], float, float]
"""Lines in reading order, and the left and right edge of the column they stand in."""


def reading_order(lines: list[Line]) -> list[Region]:
    """Parts of the page in reading order. A page in one column is one region."""
    return _order(lines, _DEPTH) or [(lines, *_edges(lines))]


def _edges(lines: list[Line]) -> tuple[float, float]:
    if not lines:
        return 0.0, 0.0
    return min(line[0].x0 for line in lines), max(line[-1].x1 for line in lines)


def _order(lines: list[Line], depth: int) -> list[Region] | None:
    """Regions if the lines stand in columns, else None."""
    gutter = _gutter(lines)
    if gutter is None:
        return None
    bands = _bands(lines, gutter)
    left = [line for band in bands for line in band[1]]
    right = [line for band in bands for line in band[2]]
    for side in (left, right):
        if not _is_prose(side) and (depth == 1 or _order(side, depth - 1) is None):
            return None
    page_edges, left_edges, right_edges = _edges(lines), _edges(left), _edges(right)
    regions: list[Region] = []
    for full_width, band_left, band_right in bands:
        if full_width:
            regions.append((full_width, *page_edges))
        elif _is_table_band(band_left, band_right):
            merged = [a + b for a, b in _pairs(band_left, band_right)]
            regions.append((merged, *page_edges))
        else:
            for side, edges in ((band_left, left_edges), (band_right, right_edges)):
                if side:
                    regions.extend(
                        (_order(side, depth - 1) if depth > 1 else None) or [(side, *edges)]
                    )
    return regions


def _gutter(lines: list[Line]) -> float | None:
    """Where the middle of the strip that the fewest segments cross is (x); None without one."""
    count = sum(map(len, lines))
    if count < 2 * _MIN_LINES:
        return None
    if sum([len(s.text) for line in lines for s in line]) < _MIN_CHARACTERS * count:
        return None  # the short cells of a table
    left, right = _edges(lines)
    bins = int((right - left) / _BIN) + 2
    if bins < 40:
        return None
    change = [0] * (bins + 1)
    for line in lines:
        for segment in line:
            change[int((segment.x0 - left) / _BIN)] += 1
            change[min(bins, int((segment.x1 - left) / _BIN) + 1)] -= 1
    crossing, covered = [], 0
    for step in change:
        covered += step
        crossing.append(covered)
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
    """A wide table on a page in columns: several short cells on both sides, row by row."""
    if len(left) < 2 or len(right) < 2:
        return False
    both = left + right
    pieces = [segment for line in both for segment in line]
    words = sum(segment.text.count(" ") + 1 for segment in pieces) / len(pieces)
    return len(pieces) > 1.5 * len(both) and words < 3.5


def _is_prose(lines: list[Line]) -> bool:
    """Lines that fill their column and read on from one to the next."""
    if len(lines) < _MIN_LINES or sum(map(len, lines)) > 1.5 * len(lines):
        return False
    left, right = _edges(lines)
    fill = sum(line[-1].x1 - line[0].x0 for line in lines) / (len(lines) * max(1.0, right - left))
    text = "".join([segment.text for line in lines for segment in line])
    letters = sum(map(str.isalpha, text)) / len(text)
    if fill < 0.5 or letters < 0.65:
        return False
    words = sum(s.text.count(" ") + 1 for line in lines for s in line) / len(lines)
    continued = sum(line[0].text[0].islower() for line in lines) / len(lines)
    if text.lower() == text.upper():  # a script without case, perhaps without blanks
        return fill >= 0.7 and len(text) / len(lines) >= 8
    return (continued >= 0.25 and words >= 3) or (words >= 4.5 and fill >= 0.65)
