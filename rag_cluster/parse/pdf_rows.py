"""Rows: lines in reading order with their cells, and which of them form tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median

from rag_cluster.parse.pdf_page import Line, Segment

CELL_SEPARATOR = "  "
_CELL_GAP = 0.9  # of the font size: a wider gap parts cells
_NEAR = 4  # rows above and below, for the right edge of a paragraph
_WORD_GAP = 0.12  # of the font size: a wider gap is a blank

_CURRENCY = re.compile(r"(?:[A-Z]{0,3}[$€£¥₹]|USD|EUR|GBP|CHF)\s?\(?")
_TRAILING_CURRENCY = re.compile(r"(.*[\d)%\u2013\u2014-])\s+([A-Z]{0,3}[$€£¥₹])")
_CLOSING = re.compile(r"[)%†*]+|\)?\s?%|\)?\s?(?:pts?|bps)|x")
_MARKER = re.compile(
    r"[^\w\s$€£¥]|o|\(?(?:\d{1,3}|[a-zA-Z]|[ivxlc]{1,5})[.)]|"
    r"\d{1,2}(?:\.\d{1,2}){1,4}\.?|(?:item|note|part)\s\w{1,4}(?:\.\d+)?[.:]?",
    re.IGNORECASE,
)
AMOUNT = re.compile(
    r"[-\u2013\u2014(]?\s?(?:[A-Z]{0,3}[$€£¥₹]\s?)?[-\u2013\u2014(]?\d[\d.,'\u2019\s]*\)?\s?(?:%|x|pts?|bps)?\)?|[-\u2013\u2014]+\s?%?"
)
_YEAR = re.compile(r"(?:fy|fiscal\s)?(?:19|20)\d\d\*?(?:\s?\(\d\))?", re.IGNORECASE)

# Row.kind
TEXT, TABLE, MARKDOWN = "text", "table", "markdown"


@dataclass(slots=True)
class Row:
    """A line of the reading order.

    `left` and `right` are the edges of its column, `space` the distance to the baseline of the row
    above in the same region (0 for the first), all in points. `limit` is where the text
    around the row ends on the right, `middle` half the page's width. `header_length` is MARKDOWN's.
    """

    page: int
    text: str
    cells: list[str]
    starts: list[float]
    x0: float
    x1: float
    baseline: float
    size: float
    bold: bool
    italic: bool
    left: float
    right: float
    space: float
    kind: str = TEXT
    header: bool = False
    header_length: int = 0
    limit: float = 0.0
    middle: float = 0.0

    @property
    def opens_region(self) -> bool:
        """The row is the first of its column or page."""
        return self.space == 0.0


def make_rows(
    lines: list[Line], left: float, right: float, page: int, middle: float = 0.0
) -> list[Row]:
    """The rows of one region."""
    rows: list[Row] = []
    previous = None
    for line in lines:
        cells, starts = _cells(line)
        main = line[0] if len(line) == 1 else max(line, key=lambda s: len(s.text))
        text = CELL_SEPARATOR.join(cells)
        space = 0.0 if previous is None else max(0.01, main.baseline - previous)
        bold = main.bold and all(s.bold for s in line if len(s.text) > 1)
        if rows and _is_label_for(rows[-1], cells, starts[0], space):
            _append_values(rows[-1], cells, starts, line[-1].x1)
            continue
        rows.append(
            Row(
                page, text, cells, starts, line[0].x0, line[-1].x1, main.baseline, main.size,
                bold, main.italic, left, right, space,
            )
        )  # fmt: skip
        previous = main.baseline
    mark_tables(rows)
    for index, row in enumerate(rows):
        row.middle = middle
        if row.kind != TEXT:
            continue
        near = rows[max(0, index - _NEAR) : index + _NEAR + 1]
        row.limit = max([r.x1 for r in near if r.kind == TEXT], default=right)
    return rows


def _is_label_for(row: Row, cells: list[str], start: float, space: float) -> bool:
    """Values set a little below the label that they belong to."""
    near = 0 < space < 0.85 * row.size and start > row.x1
    return near and len(row.cells) == 1 and all(map(is_amount, cells))


def _append_values(row: Row, cells: list[str], starts: list[float], x1: float) -> None:
    row.cells += cells
    row.starts += starts
    row.x1 = x1
    row.text = CELL_SEPARATOR.join(row.cells)


def _cells(line: Line) -> tuple[list[str], list[float]]:
    """Texts of the line's cells, and where each begins."""
    if len(line) == 1:
        return [line[0].text], [line[0].x0]
    cells: list[str] = []
    starts: list[float] = []
    end = 0.0
    for segment in line:
        if cells:
            joined = _join(cells[-1], segment, segment.x0 - end)
            if joined is not None:
                cells[-1] = joined
                end = max(end, segment.x1)
                continue
        cells.append(segment.text)
        starts.append(segment.x0)
        end = segment.x1
    for i in range(len(cells) - 1):
        # "1,488 $" "1,544": the sign stands with the next amount.
        match = _TRAILING_CURRENCY.fullmatch(cells[i])
        if match:
            cells[i : i + 2] = [match[1], f"{match[2]} {cells[i + 1]}"]
    # A bullet or number far before its text is no cell of its own.
    if len(cells) >= 2 and _is_marker(cells, starts, line[0].size):
        cells[:2] = [f"{cells[0]} {cells[1]}"]
        del starts[1]
    return cells, starts


def _is_marker(cells: list[str], starts: list[float], size: float) -> bool:
    """The first cell is a bullet or a number of the second."""
    if is_amount(cells[1]):
        return False
    near = len(cells) == 2 and starts[1] - starts[0] < 4 * size  # "2   Related Work"
    return bool(_MARKER.fullmatch(cells[0]) or (near and cells[0].isdigit() and len(cells[0]) < 3))


def _join(cell: str, segment: Segment, gap: float) -> str | None:
    """The cell with the segment added, or None where a new cell begins."""
    if gap <= _WORD_GAP * segment.size:
        return cell + segment.text
    if gap <= _CELL_GAP * segment.size:
        return f"{cell} {segment.text}"
    if _CURRENCY.fullmatch(cell) and segment.text[0] in "0123456789(-\u2013\u2014.,":
        return f"{cell} {segment.text}"
    if (
        _CLOSING.fullmatch(segment.text)
        and gap <= 2 * segment.size
        and cell[-1] in "0123456789)\u2013\u2014-"
    ):
        return cell + segment.text
    return None


def is_amount(cell: str) -> bool:
    """A number with what belongs to it: "$ 1,577", "(0.54)", "12 %", or the dash for none."""
    return AMOUNT.fullmatch(cell) is not None


def is_cells(row: Row) -> bool:
    """Two cells or more, as a row of a table has."""
    return len(row.cells) >= 2


def mark_tables(rows: list[Row]) -> None:
    """Set `kind` to TABLE for runs of rows with cells, labels between them included."""
    start = 0
    while start < len(rows):
        if not is_cells(rows[start]):
            start += 1
            continue
        end = _run_end(rows, start)
        if sum(map(is_cells, rows[start:end])) >= 2 or len(rows[start].cells) >= 3:
            for row in rows[start:end]:
                row.kind = TABLE
            _mark_header(rows[start:end])
        start = end


def _run_end(rows: list[Row], start: int) -> int:
    """Index after the last row with cells of the run that begins at `start`."""
    end = start + 1
    labels = 0
    for index in range(start + 1, len(rows)):
        row = rows[index]
        if row.space > 3.2 * row.size or row.opens_region:
            break
        if is_cells(row):
            end, labels = index + 1, 0
            continue
        labels += 1
        wide = row.x1 - row.x0 > 0.75 * (row.right - row.left)
        if labels > 3 or (wide and (labels > 1 or row.text.endswith("."))):
            break
    return end


def _mark_header(run: list[Row]) -> None:
    """Leading rows without amounts (years are none) are header rows, if data rows follow."""
    count = 0
    for row in run[:4]:
        data = [c for c in row.cells if is_amount(c) and not _YEAR.fullmatch(c)]
        labelled = row.x0 < row.left + 2 * row.size and len(row.cells) == 1
        if data or labelled:
            break
        count += 1
    if 0 < count < len(run) and len(run) >= 3:
        for row in run[:count]:
            row.header = True


def leading_of(rows: list[Row]) -> float:
    """Usual distance of baselines within paragraphs, in font sizes: the median over wide rows."""
    ratios = [
        row.space / row.size
        for row in rows
        if row.kind == TEXT
        and not row.opens_region
        and row.x1 - row.x0 > 0.6 * (row.right - row.left)
    ]
    return min(3.0, max(1.0, median(ratios))) if ratios else 1.25
