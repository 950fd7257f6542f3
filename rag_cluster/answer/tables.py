"""A table row as one readable line, with the header cells that say what its cells are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_cluster.answer.sentences import Unit

_CELL_BREAK = re.compile(r"\t+|[ ]{3,}|[ ]*(?<!\\)\|[ ]*")
_NUMERIC = re.compile(r"[^\w]*\d[\d.,]*\W*$")
_YEAR = re.compile(r"\D*(19|20)\d\d\D*$")


def cells(row: str) -> list[str]:
    """The cells of a Markdown row, or of a line whose cells stand apart by tabs or spaces."""
    line = row.strip()
    if line.startswith("|"):
        line = line.removeprefix("|").removesuffix("|")
        return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
    return [cell.strip() for cell in _CELL_BREAK.split(line)]


def read_row(text: str, units: Sequence[Unit], number: int, header: str) -> str:
    """Row `number` as "Header: cell; Header: cell"; "" where it is a header row itself.

    A header with one cell less than the row leaves the first cell as the row's name.
    """
    if _header_row(text, units, _run_around(units, number)) == number:
        return ""
    row = cells(text[units[number].start : units[number].end])
    names = header_cells(text, units, number, header)
    if not names:
        return ", ".join(cell for cell in row if cell)
    pairs = zip(names, row, strict=True)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell)


def header_cells(text: str, units: Sequence[Unit], number: int, header: str) -> list[str]:
    """The header's cells over row `number`, one for each of its cells; none where none fit.

    The header is the row before the |---| line above; else the first row of the run where its
    cells are words or years (but two columns of words are names and values, without a header);
    else the first line of `header` (the repeated header rows of a split table). Where it has one
    cell less than the row, the row's first cell stands under "".
    """
    heads = _header_row(text, units, _run_around(units, number))
    if heads is not None:
        names = cells(text[units[heads].start : units[heads].end])
    elif header.strip():
        names = cells(header.strip().splitlines()[0])
    else:
        names = []
    row = cells(text[units[number].start : units[number].end])
    if len(names) == len(row) - 1:
        names = ["", *names]
    return names if len(names) == len(row) else []


def _run_around(units: Sequence[Unit], number: int) -> range:
    """The neighbouring units that are rows or rules."""
    first = last = number
    while first > 0 and units[first - 1].kind in ("row", "rule"):
        first -= 1
    while last + 1 < len(units) and units[last + 1].kind in ("row", "rule"):
        last += 1
    return range(first, last + 1)


def _header_row(text: str, units: Sequence[Unit], run: range) -> int | None:
    for number in run:
        if units[number].kind == "rule":
            return number - 1 if number > run.start else None
    first = cells(text[units[run.start].start : units[run.start].end])
    named = all(not _NUMERIC.match(cell) or _YEAR.match(cell) for cell in first if cell)
    years = any(_YEAR.match(cell) for cell in first)
    return run.start if len(run) > 1 and named and (years or len(first) > 2) else None
