"""Rows to one text: paragraphs, table rows, hyphenation, and the spans of all of it.

The lines of a paragraph are joined by a blank, paragraphs are parted by an empty line, rows of a
table and items of a list stand on lines of their own. A paragraph goes on over a page's end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rag_cluster.parse.parsed import Heading, Span
from rag_cluster.parse.pdf_levels import Mark
from rag_cluster.parse.pdf_rows import MARKDOWN, TABLE, TEXT, Row, is_cells, leading_of

_PARAGRAPH, _LINE, _BLANK = "\n\n", "\n", " "
_SENTENCE_END = (".", "!", "?", ":", ";", "。", "\uff01", "\uff1f", "\uff1a", ".”", '."', ".)", "”")
_LIST_ITEM = re.compile(r"(?:[^\w\s\"“”(\[$€£¥]|o|\(?(?:\d{1,3}|[a-zA-Z]|[ivxlc]{1,5})[.)])\s")
_HYPHENS = "-\u2010\u00ad"
_WORD = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")
_LEFT_WORD, _RIGHT_WORD = re.compile(r"[^\W\d_]+$"), re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_SUSPENDED = {"and", "or", "to", "und", "oder", "bis", "et", "ou", "y", "o", "e", "en", "of"}
_PREFIXES = {"self", "non", "well", "quasi", "semi", "ex"}
_MIN_TABLE_ROWS = 3


@dataclass(slots=True)
class Text:
    """The text and its spans, as `Parsed` wants them."""

    text: str
    headings: list[Heading] = field(default_factory=list)
    pages: list[Span] = field(default_factory=list)
    tables: list[Span] = field(default_factory=list)


def assemble(rows: list[Row], marks: list[Mark], page_count: int) -> Text:
    """Join the rows. `marks` are the headings among them; pages count from 1, empty ones too."""
    heading_of = {i: m for m in marks for i in range(m.first, m.last + 1)}
    leading = leading_of(rows)
    words: _Words | None = None
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    glued: list[str] = []
    length = 0
    for index, row in enumerate(rows):
        text = row.text
        separator = ""
        if index:
            separator = _separator(
                rows[index - 1], row, heading_of.get(index - 1), heading_of.get(index), leading
            )
            if separator == _BLANK:
                if pieces[-1][-1:] in _HYPHENS and len(pieces[-1]) > 1 and pieces[-1][-2].isalpha():
                    words = words or _Words(rows)
                    pieces[-1], separator = words.join(pieces[-1], text)
                    length = starts[-1] + len(pieces[-1])
                    ends[-1] = length
                elif _without_blanks(pieces[-1][-1]) and _without_blanks(text[0]):
                    separator = ""
        pieces.append(separator)
        glued.append(separator)
        length += len(separator)
        pieces.append(text)
        starts.append(length)
        length += len(text)
        ends.append(length)
    result = Text("".join(pieces))
    _add_pages(result, rows, starts, ends, page_count)
    _add_headings(result, rows, marks, starts, ends)
    _add_tables(result, rows, glued, starts, ends)
    return result


def _separator(
    a: Row, b: Row, heading_a: Mark | None, heading_b: Mark | None, leading: float
) -> str:
    if heading_a or heading_b:
        return _BLANK if heading_a is heading_b else _PARAGRAPH
    if a.kind == TABLE and b.kind == TABLE and not b.opens_region:
        if b.space > 3.2 * b.size:
            return _PARAGRAPH
        wrapped = not is_cells(a) and b.text[0].islower() and abs(a.x0 - b.x0) < 3 * a.size
        return _BLANK if wrapped else _LINE
    if a.kind != TEXT or b.kind != TEXT or abs(a.size - b.size) > 0.12 * a.size:
        return _PARAGRAPH
    runs_on = not a.text.endswith(_SENTENCE_END) and b.text[0].islower()
    hyphenated = a.text[-1] in _HYPHENS and b.text[0].islower() and a.text[-2:-1].isalpha()
    if b.opens_region:
        return _BLANK if runs_on else _PARAGRAPH
    if b.space > max(1.3 * leading, 1.2) * b.size:
        return _PARAGRAPH
    if hyphenated:
        return _BLANK
    if _LIST_ITEM.match(b.text) and not runs_on:
        return _LINE
    return _flow(a, b, runs_on=runs_on)


def _flow(a: Row, b: Row, *, runs_on: bool) -> str:
    """Separator between neighbouring lines of one block: the same paragraph, or a new one?"""
    ends = a.text.endswith(_SENTENCE_END)
    indented = b.x0 - a.x0 > 0.9 * b.size
    if indented and ends and not _LIST_ITEM.match(a.text):
        return _PARAGRAPH
    first_word = b.text.partition(" ")[0]
    room = a.limit - a.x1
    # The writer broke the line although the next word would have fitted.
    broken = room > (min(len(first_word), 12) * 0.55 + 1.0) * b.size + 0.04 * (a.limit - a.left)
    if not broken or (runs_on and room < 0.6 * (a.limit - a.left)):
        return _BLANK
    return _PARAGRAPH if ends else _LINE


def _without_blanks(character: str) -> bool:
    """Chinese and Japanese are written without blanks (Korean is not)."""
    return (
        "\u3001" <= character <= "\u30ff"
        or "\u3400" <= character <= "\u9fff"
        or "\uff01" <= character <= "\uff60"
    )


class _Words:
    """The document's own words decide whether a hyphen at a line's end belongs to the word."""

    def __init__(self, rows: list[Row]) -> None:
        self._plain: set[str] = set()
        self._hyphenated: set[str] = set()
        tokens: set[str] = set()
        after_hyphen = False
        for row in rows:
            found = row.text.split()
            hyphen_at_end = row.text[-1] in _HYPHENS
            # Halves at line ends are no evidence for themselves.
            if hyphen_at_end or after_hyphen:
                found = found[after_hyphen : len(found) - hyphen_at_end]
            after_hyphen = hyphen_at_end
            tokens.update(found)
        for token in tokens:
            for word in _WORD.findall(token):
                (self._hyphenated if "-" in word else self._plain).add(word.casefold())

    def join(self, before: str, after: str) -> tuple[str, str]:
        """(`before` as it stands in the text, what comes between it and `after`)."""
        hyphen, stem = before[-1], before[:-1]
        if hyphen == "\u00ad":
            return stem, ""
        left, right = _LEFT_WORD.search(stem), _RIGHT_WORD.match(after)
        if left is None or right is None or not right[0][0].islower():
            return before, ""
        if right[0] in _SUSPENDED:
            return before, " "
        return (before if self._is_compound(left[0].casefold(), right[0]) else stem), ""

    def _is_compound(self, left: str, right: str) -> bool:
        if f"{left}-{right}" in self._hyphenated or "-" in right:
            return True
        if left + right in self._plain:
            return False
        both_words = left in self._plain and right in self._plain
        return left in _PREFIXES or (both_words and min(len(left), len(right)) >= 4)


def _add_pages(
    result: Text, rows: list[Row], starts: list[int], ends: list[int], page_count: int
) -> None:
    spans: dict[int, list[int]] = {}
    for row, start, end in zip(rows, starts, ends, strict=True):
        span = spans.setdefault(row.page, [start, end])
        span[1] = end
    position = 0
    for number in range(1, page_count + 1):
        start, end = spans.get(number - 1, [position, position])
        result.pages.append(Span(start, end, number))
        position = end


def _add_headings(
    result: Text, rows: list[Row], marks: list[Mark], starts: list[int], ends: list[int]
) -> None:
    for mark in marks:
        start, end = starts[mark.first], ends[mark.last]
        body = starts[mark.last + 1] if mark.last + 1 < len(rows) else end
        title = mark.title or result.text[start:end].replace("\n", " ")
        result.headings.append(Heading(title, mark.level, start, body))


def _add_tables(
    result: Text, rows: list[Row], separators: list[str], starts: list[int], ends: list[int]
) -> None:
    """Spans of Markdown tables, and of runs of at least three rows in the text."""
    index = 0
    while index < len(rows):
        row, first = rows[index], index
        index += 1
        if row.kind == MARKDOWN:
            header_end = starts[first] + row.header_length
            result.tables.append(Span(starts[first], ends[first], row.page + 1, header_end))
        elif row.kind == TABLE:
            while (
                index < len(rows)
                and rows[index].kind == TABLE
                and separators[index] in (_LINE, _BLANK)
            ):
                index += 1
            run = rows[first:index]
            if sum(map(is_cells, run)) >= _MIN_TABLE_ROWS:
                header = first
                while rows[header].header and header + 1 < index:
                    header += 1
                result.tables.append(
                    Span(starts[first], ends[index - 1], row.page + 1, starts[header])
                )
