"""Cutting a table between its rows."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from rag_cluster.chunk.document import Document, Piece, Table
from rag_cluster.chunk.pack import Rules, pack

# A row is never cut. Only what is longer than this (and than the size), in tokens, is not a row
# that anyone reads as one, but a page laid out as a table: it is cut as text.
LONGEST_ROW = 512

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Header:
    """The header rows that are repeated, and the tokens that they take."""

    text: str
    tokens: int


def table_pieces(document: Document, lead: int, table: Table, rules: Rules) -> list[Piece]:
    """Pieces of kind "table", cut between rows; the first begins at `lead` (caption or heading).

    Each but the first repeats the header rows in `header`, and both together stay within the size.
    A header that takes more than half of it is repeated up to there. A row larger than the size is
    a piece of its own, marked `whole`. Where a last row would be left under `rules.min_size` tokens
    it takes rows from the piece before it.
    """
    header = _header(document, table, rules.size // 2)
    groups: list[list[Span]] = []
    for row in _rows(document, lead, table):
        room = rules.size - (header.tokens if len(groups) > 1 else 0)
        if groups and document.ruler.count(groups[-1][0][0], row[1]) <= room:
            groups[-1].append(row)
        else:
            groups.append([row])
    _fill_last(document, groups, rules, rules.size - header.tokens)
    pieces: list[Piece] = []
    for group in groups:
        span = (group[0][0], group[-1][1])
        tokens = document.ruler.count(*span)
        if tokens > max(LONGEST_ROW, rules.size):
            pieces.extend(pack(document, *span, rules, kind="table"))
            continue
        repeated = header if pieces else Header("", 0)
        whole = tokens + repeated.tokens > rules.size
        piece = Piece(*span, "table", repeated.text, whole=whole, header_tokens=repeated.tokens)
        pieces.append(piece)
    return pieces


def _fill_last(document: Document, groups: list[list[Span]], rules: Rules, room: int) -> None:
    """Moves rows from the last group but one into the last, until that is large enough."""
    if len(groups) < 2:
        return
    before, last = groups[-2:]
    while len(before) > 1 and document.ruler.count(last[0][0], last[-1][1]) < rules.min_size:
        left = document.ruler.count(before[0][0], before[-2][1])
        if left < rules.min_size or document.ruler.count(before[-1][0], last[-1][1]) > room:
            return
        last.insert(0, before.pop())


def _header(document: Document, table: Table, most: int) -> Header:
    start, end = document.trim(table.start, table.header_end)
    if document.ruler.count(start, end) > most:
        words = document.breaks.words
        index = bisect_right(words, document.ruler.reach(start, most)) - 1
        start, end = document.trim(start, max(start, words[index] if index >= 0 else start))
    return Header(document.text[start:end], document.ruler.count(start, end))


def _rows(document: Document, lead: int, table: Table) -> list[Span]:
    """Lines of the table, trimmed, without empty ones; the header rows are one of them."""
    ends = [table.header_end] if table.header_end > table.start else []
    position = table.header_end
    while position < table.end:
        newline = document.text.find("\n", position, table.end)
        position = table.end if newline < 0 else newline + 1
        ends.append(position)
    rows: list[Span] = []
    start = lead
    for end in ends:
        row = document.trim(start, end)
        if row[0] < row[1]:
            rows.append(row)
        start = end
    return rows
