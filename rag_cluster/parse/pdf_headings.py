"""Which rows are headings, told by typography, numbering and position.

A heading is a short row (up to four) that is larger, heavier or in capitals against the body text,
or that begins with a number ("3.2.1 Scope", "Item 1A."), alone on its row, at the left edge or
centred, not within a paragraph of its own style and not between the rows of a table.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from rag_cluster.parse.pdf_levels import (
    DIVISION,
    ITEM,
    Mark,
    Style,
    depth_of,
    half_points,
    set_levels,
    style_of,
)
from rag_cluster.parse.pdf_rows import TABLE, TEXT, Row, is_cells, leading_of

_MAX_CHARACTERS, _MAX_WORDS, _MAX_ROWS = 180, 28, 4
_LARGER = 1.12  # times the body's size
_SMALLEST = 0.88  # times the body's size
_LITTLE_TEXT = 1000  # characters
_FEW_CHARACTERS = 60  # between two headings, of a table of contents

_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_COUNTS = "three|six|nine|twelve|thirteen|twenty-six|thirty-nine|fifty-two|\\d+"
# Column heads of tables: dates, periods and units.
_NOT_TITLE = re.compile(
    rf"(?:as (?:of|at)|at|for the|(?:fiscal )?(?:years?|quarters?|months?)|{_COUNTS})\b"
    r".*\b(?:ended|months?|weeks?|years?|\d{4})\b.*|"
    rf"(?:(?:as )?(?:of|at) )?(?:{_MONTHS})\s+\d.*|"
    r"\(.*\)|\(?[$€£¥] in \w+.*|in (?:millions|thousands|billions)\b.*|[\W\d_]+",
    re.IGNORECASE,
)
_SENTENCE_END = (".", "!", "?", ":", ".”", '."', "。")
_NEVER_LAST = frozenset(
    ("the", "a", "an", "and", "or", "of", "to", "in", "for", "with", "by", "that", "our")
)
_STARTS_NUMBERED = re.compile(r"[\dA-Z§]|part|chapter|item|section|article", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Body:
    """The style of most text; `flat`: paragraphs are numbered 1., 2., 3. without titles."""

    size: float
    bold: bool
    flat: bool
    leading: float  # usual distance of baselines within paragraphs, in font sizes


def find_headings(rows: list[Row]) -> list[Mark]:
    """Headings with their levels, in the order of the rows."""
    if not rows:
        return []
    body = _body(rows)
    marks: list[Mark] = []
    index = 0
    while index < len(rows):
        last = _heading_end(rows, index, body)
        if last is not None:
            marks.append(Mark(index, last, 0))
            index = last
        index += 1
    marks = _drop_contents(marks, rows)
    set_levels(marks, rows)
    return _join_subtitles(marks, rows)


def _join_subtitles(marks: list[Mark], rows: list[Row]) -> list[Mark]:
    """A company's name right below a statement's title would rank above it: it joins the title."""
    kept: list[Mark] = []
    for mark in marks:
        row = rows[mark.first]
        above = kept[-1] if kept else None
        if (
            above is not None
            and above.last + 1 == mark.first
            and above.level >= mark.level
            and style_of(rows[above.first]) != style_of(row)
            and 0 < row.space < 2.2 * row.size
            and half_points(row.size) == half_points(rows[above.last].size)
            and not (depth_of(row.text) or ITEM.match(row.text) or DIVISION.match(row.text))
        ):
            above.last = mark.last
        else:
            kept.append(mark)
    return kept


def _body(rows: list[Row]) -> _Body:
    sizes: Counter[float] = Counter()
    bold = 0
    for row in [row for row in rows if row.kind == TEXT] or rows:
        length = len(row.text)
        sizes[half_points(row.size)] += length
        bold += length if row.bold else -length
    most = sizes.most_common(1)[0][1]
    size = sizes.most_common(1)[0][0]
    if sizes.total() < _LITTLE_TEXT:
        # A title may well outweigh a line or two of text: the smaller type is the body's.
        size = min(s for s, count in sizes.items() if count >= 0.3 * most)
    return _Body(size, bold > 0, _is_flat(rows, size, bold > 0), leading_of(rows))


def _is_flat(rows: list[Row], size: float, bold: bool) -> bool:  # noqa: FBT001
    """Paragraphs numbered "1.", "2.", ...: most such rows run on or end like sentences."""
    titles = paragraphs = 0
    for index, row in enumerate(rows):
        if not row.text[0].isdigit() or depth_of(row.text) != 1:
            continue
        if (row.bold and not bold) or row.size > _LARGER * size:
            continue
        below = rows[index + 1] if index + 1 < len(rows) else None
        listed = below is not None and depth_of(below.text) == 1
        runs_on = below is not None and below.text[0].islower()
        sentence = row.text.endswith((".", ";", ":", ",")) or row.text.count(" ") > 10
        wide = row.x1 - row.x0 > 0.8 * (row.right - row.left)
        if listed or runs_on or sentence or wide:
            paragraphs += 1
        else:
            titles += 1
    return paragraphs > 0.3 * titles


def _heading_end(rows: list[Row], index: int, body: _Body) -> int | None:
    """Index of the heading's last row if a heading begins at `index`, else None."""
    row = rows[index]
    if len(row.cells) > 1 or row.kind not in (TEXT, TABLE) or len(row.text) > _MAX_CHARACTERS:
        return None
    style = style_of(row)
    larger = style.size >= _LARGER * body.size
    heavier = style.bold and not body.bold and style.size >= _SMALLEST * body.size
    capitals = style.capitals and style.size >= _SMALLEST * body.size
    if not (larger or heavier or capitals or _STARTS_NUMBERED.match(row.text)):
        return None
    if not _may_be_title(row) or _in_table(rows, index, body.size):
        return None
    if not (larger or heavier) and not (capitals and _stands_alone(rows, index, body)):
        return index if _is_numbered_title(rows, index, body) else None
    if index and _continues(rows[index - 1], row, style_of(rows[index - 1]), body):
        return None  # the last rows of a paragraph in this style
    last = index
    while last + 1 < len(rows) and _continues(rows[last], rows[last + 1], style, body):
        last += 1
        if last - index >= _MAX_ROWS:
            return None
    if last + 1 < len(rows) and _is_paragraph(rows[last], rows[last + 1], style):
        return None
    text = " ".join([r.text for r in rows[index : last + 1]])
    if len(text) > _MAX_CHARACTERS or text.count(" ") >= _MAX_WORDS:
        return None
    return last if _ends_like_title(text) else None


def _is_paragraph(row: Row, below: Row, style: Style) -> bool:
    """The row runs to its right edge, and one of the same style follows, however far apart."""
    if below.opens_region or is_cells(below) or below.space > 3 * row.size:
        return False
    return row.right - row.x1 < 1.5 * row.size and style_of(below) == style


def _may_be_title(row: Row) -> bool:
    text = row.text
    if (
        sum(map(str.isalpha, text)) < 3 - (not text.isascii())
        or "__" in text
        or not (text[0].isalnum() or text[0] in "§“\"'(¿¡")
    ):
        return False
    if text[0].islower() or _NOT_TITLE.fullmatch(text):
        return False
    width = row.right - row.left
    centre = (row.x0 + row.x1) / 2
    of_column = abs(centre - (row.left + row.right) / 2) < 0.06 * width
    of_page = abs(centre - row.middle) < 0.04 * row.middle
    return of_column or of_page or row.x0 - row.left < 0.25 * width


def _ends_like_title(text: str) -> bool:
    if text.endswith((",", ";", "-")) or text.rpartition(" ")[2] in _NEVER_LAST:
        return False
    if text.endswith(("。", "\uff1b", "\uff0c")):
        return False
    if text.endswith(".") and not text.endswith("..."):
        number = ITEM.match(text) or DIVISION.match(text)
        return ". " not in text[number.end() if number else 4 : -1].lstrip()
    return True


def _continues(row: Row, below: Row, style: Style, body: _Body) -> bool:
    """`below` goes on with the title (or the paragraph) of `row`, in the same style."""
    if is_cells(row) or is_cells(below) or below.opens_region or below.space > 1.75 * row.size:
        return False
    other = style_of(below)
    if (other.size, other.bold, other.italic) != (style.size, style.bold, style.italic):
        return False
    if depth_of(below.text) or ITEM.match(below.text) or DIVISION.match(row.text):
        return False
    if below.text[0].islower():
        return True
    if other.capitals != style.capitals:
        return False
    # A line that ends well before its edge is whole; but large titles are broken for their looks.
    width = row.right - row.left
    centred = abs((row.x0 - row.left) - (row.right - row.x1)) < 0.06 * width
    if centred and style.size >= 1.3 * body.size:
        return True
    return row.right - row.x1 < 0.25 * width or row.x1 - row.x0 > 0.6 * width


def _in_table(rows: list[Row], index: int, body_size: float) -> bool:
    """A label between rows of a table ("Current assets"), however bold, is no heading."""
    row = rows[index]
    if row.size >= 1.3 * body_size:
        return False
    if row.kind == TABLE:
        return True
    above = rows[index - 1] if index else row
    if above.kind != TABLE or row.opens_region or index + 1 == len(rows):
        return False
    near = row.space < (4 if row.text.endswith(":") else 1.7) * row.size
    return near and rows[index + 1].kind == TABLE


def _stands_alone(rows: list[Row], index: int, body: _Body) -> bool:
    """A gap above parts the row from the text, or what is above is not running text like it."""
    row = rows[index]
    if index == 0:
        return True
    above = rows[index - 1]
    if row.opens_region:
        return (
            above.kind != TEXT or above.text.endswith(_SENTENCE_END) or above.page != row.page - 1
        )
    if row.space > 1.25 * body.leading * row.size:
        return True
    same = half_points(above.size) == half_points(row.size) and above.bold == row.bold
    return above.kind != TEXT or not same or _is_short(above)


def _is_short(row: Row) -> bool:
    return row.x1 - row.x0 < 0.5 * (row.right - row.left)


def _is_numbered_title(rows: list[Row], index: int, body: _Body) -> bool:
    """A numbered row in the body's own style: a short title with a body under it."""
    row = rows[index]
    depth = depth_of(row.text)
    division = DIVISION.match(row.text) or ITEM.match(row.text)
    if division and row.text[division.end() :].lstrip()[:1].islower():
        return False  # "Section 5 of the act"
    if (depth is None and not division) or (depth == 1 and body.flat):
        return False
    if row.text.count(" ") > (8 if division else 12):
        return False
    if row.text.endswith((".", ":", ",", ";")) and not division:
        return False
    title = row.text.split(maxsplit=1)[-1]
    if depth is not None and title[0].islower():
        return False
    if row.x1 - row.x0 > 0.7 * (row.right - row.left) or not _stands_alone(rows, index, body):
        return False
    below = rows[index + 1] if index + 1 < len(rows) else None
    return below is not None and not below.text[0].islower() and below.text[0] not in ",;"


def _drop_contents(marks: list[Mark], rows: list[Row]) -> list[Mark]:
    """Leave out the lines of a table of contents.

    They are headings with next to no text before the following one, in a run of five or more; or
    parts and items of which the same words come again later.
    """
    ends = [mark.first for mark in marks[1:]] + [len(rows)] * bool(marks)
    bare = []
    for mark, end in zip(marks, ends, strict=True):
        between = rows[mark.last + 1 : min(end, mark.last + 20)]
        bare.append(sum(len(r.text) for r in between if r.kind == TEXT) < _FEW_CHARACTERS)
    later: set[str] = set()
    repeated = [False] * len(marks)
    for i in range(len(marks) - 1, -1, -1):
        text = rows[marks[i].first].text.casefold()
        repeated[i] = text in later and bool(DIVISION.match(text) or ITEM.match(text))
        later.add(text)
    kept: list[Mark] = []
    run: list[int] = []
    for i, mark in enumerate(marks):
        run.append(i)
        if i + 1 < len(marks) and marks[i + 1].first - mark.last == 1:
            continue
        whole = run if len(run) < 5 else run[:1]
        kept += [marks[j] for j in whole if not (bare[j] and repeated[j])]
        run = []
    return kept
