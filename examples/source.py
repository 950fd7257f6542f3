"""Read the Markdown subset in which the example documents are written."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

import yaml

Kind = Literal["heading", "paragraph", "item", "table", "formula", "page"]


@dataclass(frozen=True, slots=True)
class Block:
    """A heading (with its level), paragraph, list item, table, formula or page break."""

    kind: Kind
    text: str = ""
    level: int = 0
    rows: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Source:
    """The front matter and the blocks of a document."""

    front: dict[str, Any]
    blocks: list[Block]


def read_source(text: str) -> Source:
    """The source of a document; paragraphs stand on one line each, blocks between empty lines."""
    _, front, body = text.split("---\n", 2)
    blocks: list[Block] = []
    for part in re.split(r"\n\s*\n", body.strip()):
        blocks.extend(_read_block(part.strip()))
    return Source(yaml.safe_load(front), blocks)


def _read_block(part: str) -> list[Block]:
    if part == "---":
        return [Block("page")]
    if part.startswith("#"):
        marks, title = part.split(" ", 1)
        return [Block("heading", title, level=len(marks))]
    if part.startswith("|"):
        return [Block("table", rows=_read_rows(part))]
    if part.startswith("- "):
        return [Block("item", line.removeprefix("- ")) for line in part.splitlines()]
    if part.startswith("$$"):
        return [Block("formula", part.strip("$ "))]
    return [Block("paragraph", part)]


def _read_rows(part: str) -> list[list[str]]:
    lines = [line for line in part.splitlines() if not set(line) <= set("|-: ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
