"""Blocks of a document in reading order, and one Markdown text of them with exact spans.

HTML and DOCX are walked into blocks; since the walk knows what is a heading or a table, the spans
come with the text, and a paragraph that begins with "#" is not taken for a heading.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rag_cluster.parse.clean import one_line, tidy
from rag_cluster.parse.parsed import Heading, Span

Kind = Literal["paragraph", "heading", "item", "table", "code"]
_DEEPEST = 6


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of text. `level`: of a heading from 1, of a list item's nesting from 0.

    `marker` stands before a list item ("-", "3."). `rows` are the cells of a table, the first row
    being its header.
    """

    kind: Kind
    text: str = ""
    level: int = 0
    marker: str = "-"
    rows: tuple[tuple[str, ...], ...] = ()


def assemble(blocks: Iterable[Block]) -> tuple[str, list[Heading], list[Span]]:
    """The blocks' Markdown text, its headings and its tables; empty blocks are left out."""
    text = ""
    pieces: list[str] = []
    length = 0
    before: Block | None = None
    headings: list[Heading] = []
    tables: list[Span] = []
    for block in blocks:
        text = _render(block)
        if not text:
            continue
        if before is not None:
            gap = "\n" if before.kind == block.kind == "item" else "\n\n"
            pieces.append(gap)
            length += len(gap)
        end = length + len(text)
        if block.kind == "heading":
            # The newline after it belongs to the heading; the last heading of a text has none.
            headings.append(Heading(one_line(block.text), max(block.level, 1), length, end + 1))
        elif block.kind == "table":
            header = text.find("\n", text.find("\n") + 1) + 1 or len(text)
            tables.append(Span(length, end, header_end=length + header))
        pieces.append(text)
        length, before = end, block
    whole = "".join(pieces)
    if headings and headings[-1].body > len(whole):
        last = headings[-1]
        headings[-1] = Heading(last.title, last.level, last.start, len(whole))
    return whole, headings, tables


def table_block(rows: Sequence[Sequence[str]]) -> Block | None:
    """A table of cells, made rectangular; None where all cells are empty."""
    cleaned = [tuple(one_line(cell) for cell in row) for row in rows]
    cleaned = [row for row in cleaned if any(row)]
    if not cleaned:
        return None
    width = max(len(row) for row in cleaned)
    used = [any(column < len(row) and row[column] for row in cleaned) for column in range(width)]
    full = [row + ("",) * (width - len(row)) for row in cleaned]
    kept = tuple(tuple(cell for cell, keep in zip(row, used, strict=True) if keep) for row in full)
    return Block("table", rows=kept)


def _render(block: Block) -> str:
    match block.kind:
        case "heading":
            title = one_line(block.text)
            return f"{'#' * min(max(block.level, 1), _DEEPEST)} {title}" if title else ""
        case "item":
            text = tidy(block.text)
            pad = "  " * block.level
            inner = "\n" + pad + " " * (len(block.marker) + 1)
            return f"{pad}{block.marker} {text.replace(chr(10), inner)}" if text else ""
        case "table":
            return _render_table(block.rows)
        case "code":
            text = tidy(block.text)
            fence = "````" if "```" in text else "```"
            return f"{fence}\n{text}\n{fence}" if text.strip() else ""
        case _:
            return tidy(block.text)


def _render_table(rows: tuple[tuple[str, ...], ...]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)
