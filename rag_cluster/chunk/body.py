"""A stretch of a document in which text and tables follow one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rag_cluster.chunk.document import Document, Piece, Table
from rag_cluster.chunk.pack import Rules, pack
from rag_cluster.chunk.tables import table_pieces


@dataclass(frozen=True, slots=True)
class Run:
    """A trimmed span: a table, or text between tables."""

    start: int
    end: int
    table: Table | None = None


Cut = Callable[[Document, int, int, Rules], list[Piece]]


def body_pieces(
    document: Document,
    start: int,
    end: int,
    rules: Rules,
    *,
    heading_end: int = -1,
    cut: Cut = pack,
) -> list[Piece]:
    """Pieces of [start, end): fragments of its text, made by `cut`, and its tables by themselves.

    A text under `rules.min_size` tokens (a caption, a unit) or a mere heading (up to `heading_end`)
    joins the table behind it, else the one before it, as far as the size allows.
    """
    pieces: list[Piece] = []
    lead: int | None = None
    runs = runs_of(document, start, end)
    for index, run in enumerate(runs):
        if run.table is not None:
            first = run.start if lead is None else lead
            pieces.extend(table_pieces(document, first, run.table, rules))
            lead = None
            continue
        following = runs[index + 1].table if index + 1 < len(runs) else None
        small = document.ruler.count(run.start, run.end) < rules.min_size
        if (small or run.end <= heading_end) and _leads(document, run, following, rules):
            lead = run.start
        elif small and pieces and _fits(document, pieces[-1], run, rules):
            pieces[-1].end = run.end
        else:
            pieces.extend(cut(document, run.start, run.end, rules))
    return pieces


def runs_of(document: Document, start: int, end: int) -> list[Run]:
    """The tables in [start, end) and the texts between them, in order."""
    runs: list[Run] = []
    position = start
    for table in document.tables_in(start, end):
        # A table that reaches over the edge of a section is cut there.
        first, last = document.trim(max(table.start, position), min(table.end, end))
        header_end = min(max(table.header_end, first), last)
        runs.append(Run(*document.trim(position, first)))
        runs.append(Run(first, last, Table(first, header_end, last)))
        position = last
    runs.append(Run(*document.trim(position, end)))
    return [run for run in runs if run.start < run.end]


def _leads(document: Document, run: Run, table: Table | None, rules: Rules) -> bool:
    """Whether the text and the header and first row of the table behind it fit into a piece."""
    if table is None:
        return False
    newline = document.text.find("\n", table.header_end, table.end)
    first_row = table.end if newline < 0 else newline
    return document.ruler.count(run.start, first_row) <= rules.size


def _fits(document: Document, last: Piece, run: Run, rules: Rules) -> bool:
    """Whether the text can join the piece before it, which must be a table's."""
    size = document.ruler.count(last.start, run.end) + last.header_tokens
    return last.kind == "table" and size <= rules.size
