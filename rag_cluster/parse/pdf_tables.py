"""Mode `tables`: PyMuPDF's table finder on pages that show signs of a table, as Markdown.

The finder takes a hundred times as long as reading the text, so it runs only where rows with
aligned cells or ruled lines make a table likely.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rag_cluster.parse.pdf_page import Segment
from rag_cluster.parse.pdf_rows import MARKDOWN, TABLE, Row, is_cells

_MIN_ROWS = 3  # with cells, as a sign of a table
_MIN_RULES = 4  # thin lines or rectangles, as a sign of a table
_THIN = 3.0  # points
_LONE_SIGN = {")", "%", ")%"}
_CURRENCY = re.compile(r"[A-Z]{0,3}[$€£¥₹]")

Box = tuple[float, float, float, float]


def replace_tables(rows: list[Row], page: Any, segments: list[Segment]) -> list[Row]:
    """The page's rows with each found table's rows replaced by one row of Markdown.

    `segments` is the page's text. The finder gives the cells' boxes only: its own text loses
    blanks and sorts commas behind the digits in some fonts.
    """
    if not _shows_signs(rows, page):
        return rows
    for table in page.find_tables().tables:
        inside = [index for index, row in enumerate(rows) if _is_inside(row, table.bbox)]
        cells = _tidy(_fill([row.cells for row in table.rows], segments))
        if inside and len(cells) >= 2 and len(cells[0]) >= 2:
            rows = _replace(rows, inside, cells)
    return rows


def _fill(grid: list[list[Box | None]], segments: list[Segment]) -> list[list[str]]:
    """Texts of the cells: each segment goes to the cell that holds its middle, in reading order."""
    texts: list[list[list[str]]] = [[[] for _ in row] for row in grid]
    for segment in sorted(segments, key=lambda s: (s.baseline, s.x0)):
        x, y = (segment.x0 + segment.x1) / 2, segment.baseline - 0.3 * segment.size
        for row, filled in zip(grid, texts, strict=True):
            for box, text in zip(row, filled, strict=True):
                if box and box[0] <= x <= box[2] and box[1] <= y <= box[3]:
                    text.append(segment.text)
    return [[" ".join(text) for text in row] for row in texts]


def _shows_signs(rows: list[Row], page: Any) -> bool:
    if sum(1 for row in rows if row.kind == TABLE and is_cells(row)) >= _MIN_ROWS:
        return True
    rules = 0
    for kind, box in page.get_bboxlog():
        if kind.endswith("path"):
            width, height = box[2] - box[0], box[3] - box[1]
            # A stroked rectangle counts too: it may be a cell or the table's frame.
            rules += min(width, height) < _THIN < max(width, height) or kind == "stroke-path"
            if rules >= _MIN_RULES:
                return True
    return False


def _tidy(rows: list[list[str]]) -> list[list[str]]:
    """Currency signs beside their amounts; no empty rows or columns."""
    for row in rows:
        for column in range(len(row) - 1):
            if _CURRENCY.fullmatch(row[column]) and row[column + 1]:
                row[column : column + 2] = ["", f"{row[column]} {row[column + 1]}"]
            elif row[column] and row[column + 1] in _LONE_SIGN:
                row[column : column + 2] = [row[column] + row[column + 1], ""]
    rows = [row for row in rows if any(row)]
    if not rows:
        return []
    kept = [column for column in range(len(rows[0])) if any(row[column] for row in rows)]
    return [[row[column] for column in kept] for row in rows]


def _is_inside(row: Row, box: Sequence[float]) -> bool:
    x0, top, x1, bottom = box
    middle = row.baseline - 0.3 * row.size
    overlap = min(row.x1, x1) - max(row.x0, x0)
    return top <= middle <= bottom and overlap > 0.7 * (row.x1 - row.x0)


def _replace(rows: list[Row], inside: list[int], cells: list[list[str]]) -> list[Row]:
    first = rows[inside[0]]
    text, header_length = markdown(cells)
    row = replace(
        first, text=text, cells=[text], kind=MARKDOWN, header=False, header_length=header_length
    )
    gone = set(inside)
    return [
        row if index == inside[0] else other
        for index, other in enumerate(rows)
        if index == inside[0] or index not in gone
    ]


def markdown(cells: list[list[str]]) -> tuple[str, int]:
    """A Markdown table, and the length of its header with the |---| line and its newline."""
    lines = ["| " + " | ".join([c.replace("|", "\\|") for c in row]) + " |" for row in cells]
    lines.insert(1, "|" + "---|" * len(cells[0]))
    return "\n".join(lines), len(lines[0]) + len(lines[1]) + 2
