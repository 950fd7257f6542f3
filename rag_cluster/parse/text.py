"""Plain text: only headings that nobody could take for anything else, and form feeds as pages."""

from __future__ import annotations

import re
from itertools import pairwise

from rag_cluster.config import Parse
from rag_cluster.parse.clean import tidy
from rag_cluster.parse.parsed import Heading, Parsed, Span
from rag_cluster.parse.sniff import decode

PARSER = "text/1"

_UNDERLINE = re.compile(r"^(={3,}|-{3,}|~{3,})$")
_CHAPTER = re.compile(
    r"^(?:(?:chapter|part|book|appendix|kapitel|teil|anhang|chapitre|capítulo|capitolo|глава)\s+"
    r"(?:\d+|[ivxlc]+|[a-z])\b.{0,80}|第[一二三四五六七八九十百零〇\d]+[章节節回部篇].{0,40})$",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"^(\d{1,2}(?:\.\d{1,2}){0,4})\.?[ \t]+(\S.{0,90})$")
_SENTENCE_END = re.compile(r"[.!?;:,。！？；，]$")  # noqa: RUF001
_LONGEST_HEADING = 100


def parse(data: bytes, config: Parse) -> Parsed:  # noqa: ARG001 - every parser takes the settings
    """The text of the bytes. Pages stand where it has form feeds (as RFCs do)."""
    pieces = [tidy(piece) for piece in re.split("\f", decode(data))]
    text, pages = _join(pieces)
    return Parsed(text=text, parser=PARSER, headings=find_headings(text), pages=pages)


def find_headings(text: str) -> list[Heading]:
    """Headings of plain text: underlined lines, chapter lines, and numbered lines in sequence.

    All stand between empty lines, and are short and no sentences. Numbered lines count only when
    their numbers go up in order and text stands between them, so that a list is not a heading tree.
    """
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    numbered = _numbered(lines)
    headings: list[Heading] = []
    for row, line in enumerate(lines):
        title = line.strip()
        if not title or len(title) > _LONGEST_HEADING or (row > 0 and lines[row - 1].strip()):
            continue
        after = lines[row + 1].strip() if row + 1 < len(lines) else ""
        end = min(starts[row + 1], len(text))
        underline = _UNDERLINE.match(after)
        if underline and abs(len(after) - len(title)) <= max(3, len(title) // 4):
            level = 1 if after[0] == "=" else 2
            headings.append(Heading(title, level, starts[row], min(starts[row + 2], len(text))))
        elif not after and row in numbered:
            headings.append(Heading(title, numbered[row], starts[row], end))
        elif not after and _CHAPTER.match(title) and not _SENTENCE_END.search(title):
            headings.append(Heading(title, 1, starts[row], end))
    return headings


def _numbered(lines: list[str]) -> dict[int, int]:
    """Line number -> level, of numbered lines that are headings."""
    found: list[tuple[int, tuple[int, ...]]] = []
    for row, line in enumerate(lines):
        match = _NUMBERED.match(line.strip())
        if match is None or _SENTENCE_END.search(line.strip()) or not line[:1].strip():
            continue
        before = lines[row - 1].strip() if row > 0 else ""
        after = lines[row + 1].strip() if row + 1 < len(lines) else ""
        if not before and not after:
            found.append((row, tuple(int(part) for part in match.group(1).split("."))))
    top = [number[0] for _, number in found if len(number) == 1]
    in_order = bool(top) and top[0] in (0, 1) and top == list(range(top[0], top[0] + len(top)))
    if len(found) < 2 or not in_order or not _text_between(lines, [row for row, _ in found]):
        return {}
    return {row: len(number) for row, number in found}


def _text_between(lines: list[str], rows: list[int]) -> bool:
    """Whether more than half of the numbered lines have other text under them."""
    bounds = [*rows, len(lines)]
    filled = sum(
        any(line.strip() for line in lines[row + 1 : following])
        for row, following in pairwise(bounds)
    )
    return filled * 2 > len(rows)


def _join(pieces: list[str]) -> tuple[str, list[Span]]:
    if len(pieces) == 1:
        return pieces[0], []
    text, pages = "", []
    for number, piece in enumerate(pieces, start=1):
        start = len(text)
        text += piece + ("\n\n" if number < len(pieces) and piece else "")
        if piece or number < len(pieces):
            pages.append(Span(start, len(text), number=number))
    return text, pages
