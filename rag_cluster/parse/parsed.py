"""What every format parser gives: one text, and spans of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading at `start`; the text under it begins at `body`. Level 1 is the highest."""

    title: str
    level: int
    start: int
    body: int


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open span of the text. `number`: the page's; `header_end`: where header rows end."""

    start: int
    end: int
    number: int = 0
    header_end: int | None = None


@dataclass(slots=True)
class Parsed:
    """A parsed document before it becomes a DOCUMENT row.

    `title`, `author` and `date` stand where the file itself states them; None otherwise. `date` is
    ISO 8601. `metadata` holds what else the file says. `parser` names the parser and its mode.
    """

    text: str
    parser: str
    title: str | None = None
    author: str | None = None
    date: str | None = None
    headings: list[Heading] = field(default_factory=list)
    pages: list[Span] = field(default_factory=list)
    tables: list[Span] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


class ParseError(Exception):
    """A document that cannot be parsed: `reason` in few words, the same for all of its kind."""

    def __init__(self, reason: str, detail: str | None = None) -> None:
        super().__init__(reason if detail is None else f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
