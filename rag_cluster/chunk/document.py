"""A document made ready to be cut: its text, what is marked in it, and how to measure it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag_cluster.chunk.breaks import Breaks, find_breaks
from rag_cluster.chunk.ruler import Ruler
from rag_cluster.chunk.whole import find_fences, find_formulas
from rag_cluster.models.tokenizer import Tokenizer


@dataclass(slots=True)
class Piece:
    """A chunk before it has an id. `whole`: it is larger than the size because it must not be cut.

    `parent` is the section that the piece is a part of; `searchable` is false for such a section.
    """

    start: int
    end: int
    kind: str
    header: str = ""
    parent: Piece | None = None
    searchable: bool = True
    whole: bool = False
    header_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table's span; `header_end` closes its header rows (= `start` without any)."""

    start: int
    header_end: int
    end: int


@dataclass(frozen=True, slots=True)
class Section:
    """A section's span; `body` is where the text under its heading starts."""

    path: str
    role: str
    parent: int
    start: int
    body: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """Text, sections (at least one), tables (disjoint, in order), token positions and breaks."""

    text: str
    sections: list[Section]
    tables: list[Table]
    ruler: Ruler
    breaks: Breaks

    def tables_in(self, start: int, end: int) -> list[Table]:
        """The tables of which a part lies in [start, end)."""
        first = bisect_right(self.tables, start, key=lambda table: table.end)
        last = bisect_left(self.tables, end, key=lambda table: table.start)
        return self.tables[first:last]

    def trim(self, start: int, end: int) -> tuple[int, int]:
        """The span without white space at its ends; an empty one where there is nothing else."""
        inside = self.text[start:end]
        bare = inside.lstrip()
        start += len(inside) - len(bare)
        return start, start + len(bare.rstrip())


def prepare(
    row: Mapping[str, Any], tokenizer: Tokenizer, *, keep_whole: bool, size: int
) -> Document:
    """A DOCUMENT row, measured. `keep_whole`: no breaks in formulas, nor in code up to `size`."""
    text: str = row["text"] or ""
    sections = [_section(item) for item in row["sections"] or []]
    if not sections:
        sections = [Section(path="", role="body", parent=-1, start=0, body=0, end=len(text))]
    ruler = Ruler(text, tokenizer.spans(text))
    fences = find_fences(text) if keep_whole else []
    formulas = find_formulas(text, fences) if keep_whole else []
    small = [fence for fence in fences if ruler.count(*fence) <= size]
    edges = {edge for section in sections for edge in (section.start, section.body)}
    breaks = find_breaks(text, ruler.starts, edges, fences, sorted(formulas + small))
    return Document(text, sections, _tables(row["tables"] or [], len(text)), ruler, breaks)


def _section(item: Mapping[str, Any]) -> Section:
    return Section(
        path=item["path"] or "",
        role=item["role"] or "body",
        parent=-1 if item["parent"] is None else item["parent"],
        start=item["start"],
        body=item["body"],
        end=item["end"],
    )


def _tables(items: list[Mapping[str, Any]], length: int) -> list[Table]:
    """The tables in order; one that begins inside another is a part of that."""
    tables: list[Table] = []
    for item in sorted(items, key=lambda item: (item["start"], -item["end"])):
        start, end = item["start"], min(item["end"], length)
        header_end = start if item["header_end"] is None else item["header_end"]
        if start < end and (not tables or start >= tables[-1].end):
            tables.append(Table(start, min(max(start, header_end), end), end))
    return tables
