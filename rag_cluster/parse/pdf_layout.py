"""Mode `layout`: pymupdf4llm's layout model writes Markdown page by page."""

from __future__ import annotations

import re
from typing import Any

from rag_cluster.parse.parsed import Heading, Span
from rag_cluster.parse.pdf_text import Text

_HEADING = re.compile(r"(#{1,6})\s+(.+)")
_RULE = re.compile(r"\|?(?:\s*:?-{3,}:?\s*\|)+\s*:?-*:?\s*")
_EMPHASIS = re.compile(r"\*\*|__|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)|</?u>")
_SEPARATOR = "\n\n"


def read_layout(document: Any) -> Text:
    """The whole document as Markdown, with the spans of pages, headings and tables."""
    import pymupdf4llm  # here, because it loads the layout model

    chunks = pymupdf4llm.to_markdown(
        document, page_chunks=True, header=False, footer=False, use_ocr=False, show_progress=False
    )
    result = Text("")
    pieces: list[str] = []
    position = 0
    for number, chunk in enumerate(chunks, start=1):
        page = _tidy(chunk["text"])
        if page and position:
            pieces.append(_SEPARATOR)
            position += len(_SEPARATOR)
        pieces.append(page)
        result.pages.append(Span(position, position + len(page), number))
        position += len(page)
    result.text = "".join(pieces)
    _find_marks(result)
    return result


def _tidy(text: str) -> str:
    """No control characters, and no run of empty lines."""
    text = "".join([c for c in text if c.isprintable() or c in "\n\u200c\u200d"])
    return re.sub(r"[ \t]*\n(?:[ \t]*\n)+", "\n\n", text).strip()


def _find_marks(result: Text) -> None:
    """Add headings ('#' lines) and tables (a row above a |---| line, and the rows below it)."""
    lines = result.text.split("\n")
    starts, position = [], 0
    for line in lines:
        starts.append(position)
        position += len(line) + 1
    fenced = False
    index = 0
    while index < len(lines):
        line = lines[index]
        if line.startswith("```"):
            fenced = not fenced
        heading = None if fenced else _HEADING.fullmatch(line.strip())
        if heading:
            body = index + 1
            while body < len(lines) and not lines[body].strip():
                body += 1
            start = starts[index]
            end = starts[body] if body < len(lines) else start + len(line)
            title = " ".join(_EMPHASIS.sub("", heading[2]).split())
            result.headings.append(Heading(title, len(heading[1]), start, end))
        elif not fenced and "|" in line and index + 1 < len(lines) and _is_rule(lines[index + 1]):
            first, index = index, index + 1
            while index + 1 < len(lines) and lines[index + 1].startswith("|"):
                index += 1
            header_end = starts[first + 2] if first + 2 < len(lines) else len(result.text)
            end = starts[index] + len(lines[index])
            number = next((p.number for p in result.pages if starts[first] < p.end), 0)
            result.tables.append(Span(starts[first], end, number, min(header_end, end)))
        index += 1


def _is_rule(line: str) -> bool:
    return "|" in line and _RULE.fullmatch(line.strip()) is not None
