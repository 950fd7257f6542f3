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
    a piece of its own, marked `whole`.
    """
    header = _header(document, table, rules.size // 2)
    pieces: list[Piece] = []
    current: Span | None = None
    for row in _rows(document, lead, table):
        room = rules.size - (header.tokens if pieces else 0)
        if current is not None and document.ruler.count(current[0], row[1]) <= room:
            current = (current[0], row[1])
            continue
        if current is not None:
            pieces.append(_piece(document, current, pieces, header, rules.size))
        current = row
        if document.ruler.count(*row) > max(LONGEST_ROW, rules.size):
            pieces.extend(pack(document, *row, rules, kind="table"))
            current = None
    if current is not None:
        pieces.append(_piece(document, current, pieces, header, rules.size))
    return pieces


def _piece(document: Document, span: Span, before: list[Piece], header: Header, size: int) -> Piece:
    repeated = header if before else Header("", 0)
    whole = document.ruler.count(*span) + repeated.tokens > size
    return Piece(*span, "table", repeated.text, whole=whole, header_tokens=repeated.tokens)


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
