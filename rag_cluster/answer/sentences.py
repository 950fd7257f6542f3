"""A passage as units that can be quoted or left out whole: sentences, table rows, headings, code.

Sentences come from sentencex, which knows the abbreviations of many languages. What is not prose
is never sent to it: a table row, a Markdown heading, a fenced block and a display formula stay
whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rag_cluster.answer.words import words

UnitKind = Literal["sentence", "row", "rule", "heading", "block"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A span `[start, end)` of the text without white space at its ends.

    `row` is a line of a table, `rule` the |---| line under its header, `heading` a line that
    announces what follows, `block` a fenced block or a display formula.
    """

    start: int
    end: int
    kind: UnitKind


_FENCE = re.compile(r"[ \t]*(```|~~~|\$\$)")
_RULE = re.compile(r"[ \t]*\|?[ \t]*:?-{3,}:?[ \t]*(\|[ \t]*:?-{2,}:?[ \t]*)*\|?[ \t]*$")
_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*$|.*\S(\t+|[ ]*\|[ ]*|[ ]{3,})\S.*$")
_MARKED_HEADING = re.compile(r"[ \t]*#{1,6}\s+\S")
_NUMBERED_HEADING = re.compile(r"[ \t]*(\d+(\.\d+)*\.?|[A-Z]\.)\s+\S")
_ITEM = re.compile(r"[ \t]*(([-*+•\u2013]|\d{1,3}[.)])\s+|>)\S?")
_QUOTE_OR_ITEM_MARK = re.compile(r"[ \t]*(>[ \t]*)*([-*+•\u2013]\s+|\d{1,3}[.)]\s+)?")
_ENDS_SENTENCE = re.compile(r"[.!?:;,\u3002\uff01\uff1f\uff1a\uff1b\uff0c]['\"\u201d\u2019»)\]]*$")
_SPACE = re.compile(r"\s")
_HEADING_WORDS = 12

_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7af]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
)
_COMMON = {
    "en": {"the", "of", "and", "to", "is", "that", "for", "with", "are", "was"},
    "de": {"der", "die", "und", "das", "ist", "nicht", "mit", "von", "den", "ein"},
    "fr": {"le", "les", "des", "est", "et", "une", "dans", "pour", "que", "qui"},
    "es": {"el", "los", "las", "y", "es", "una", "que", "por", "para", "con"},
    "it": {"il", "di", "che", "è", "una", "per", "della", "sono", "gli", "nel"},
}


def guess_language(text: str) -> str:
    """The language whose abbreviations and stops apply: by script, else by its common words."""
    sample = text[:2000]
    letters = sum(character.isalpha() for character in sample) or 1
    for language, script in _SCRIPTS:
        if len(script.findall(sample)) / letters > (0.05 if language == "ja" else 0.2):
            return language
    found = words(sample)
    counts = {code: sum(word in common for word in found) for code, common in _COMMON.items()}
    return max(counts, key=lambda code: (counts[code], code == "en"))


def split_units(text: str, language: str | None = None) -> list[Unit]:
    """The units in order, disjoint; only white space and the marks of list items lie between."""
    language = language or guess_language(text)
    units: list[Unit] = []
    for start, end, kind in _blocks(text):
        if kind == "sentence":
            units.extend(_sentences(text, start, end, language))
        else:
            units.extend(_trimmed(text, start, end, kind))
    return units


def first_sentences(text: str, count: int) -> str:
    """The text up to the end of its first `count` units."""
    units = split_units(text)[:count]
    return text[: units[-1].end] if units else ""


def _blocks(text: str) -> Iterator[tuple[int, int, UnitKind]]:
    """Runs of lines of one kind; a paragraph ends at a blank line, a row, a heading, an item."""
    lines = _lines(text)
    pending: tuple[int, int] | None = None
    position = 0
    while position < len(lines):
        start, end = lines[position]
        line = text[start:end]
        kind = _kind_of(line, alone=pending is None, after=_line_after(text, lines, position))
        if kind == "block":
            position = _closing(text, lines, position)
            end = lines[position][1]
        if kind != "sentence" or not line.strip() or _ITEM.match(line):
            if pending:
                yield (*pending, "sentence")
            pending = None
        if kind != "sentence":
            yield start, end, kind
        elif line.strip():
            pending = (pending[0] if pending else start, end)
        position += 1
    if pending:
        yield (*pending, "sentence")


def _lines(text: str) -> list[tuple[int, int]]:
    spans, start = [], 0
    for line in text.splitlines(keepends=True):
        spans.append((start, start + len(line.rstrip("\r\n"))))
        start += len(line)
    return spans


def _line_after(text: str, lines: list[tuple[int, int]], position: int) -> str | None:
    if position + 1 >= len(lines):
        return None
    start, end = lines[position + 1]
    return text[start:end]


def _kind_of(line: str, *, alone: bool, after: str | None) -> UnitKind:
    if _FENCE.match(line):
        return "block"
    if _MARKED_HEADING.match(line):
        return "heading"
    if "-" in line and _RULE.match(line):
        return "rule"
    if _ROW.match(line):
        return "row"
    return "heading" if alone and _announces(line, after) else "sentence"


def _announces(line: str, after: str | None) -> bool:
    """Whether a line that begins a paragraph is a heading: short, no stop, and not run on.

    A blank line or a longer line that begins anew (a capital, CJK) must follow; the last line of a
    text is none, since a passage may end anywhere.
    """
    stripped = line.strip()
    if after is None or not stripped or _ENDS_SENTENCE.search(stripped):
        return False
    if _ITEM.match(line) and not _NUMBERED_HEADING.match(line):
        return False
    if len(words(stripped)) > _HEADING_WORDS or len(stripped) > 100:
        return False
    if not after.strip():
        return not stripped[0].islower()
    opening = after.lstrip()[0]
    runs_on = not opening.isalpha() or opening.islower()
    runs_on = runs_on or len(stripped) > 0.6 * len(after.strip())
    return not runs_on and not stripped[0].islower()


def _closing(text: str, lines: list[tuple[int, int]], position: int) -> int:
    """The line that closes the fence opened at `position`; the last line where none does."""
    start, end = lines[position]
    line = text[start:end]
    match = _FENCE.match(line)
    assert match is not None
    mark = match.group(1)
    if mark == "$$" and line.count("$$") > 1:
        return position
    for later in range(position + 1, len(lines)):
        start, end = lines[later]
        if mark in text[start:end]:
            return later
    return len(lines) - 1


def _sentences(text: str, start: int, end: int, language: str) -> Iterator[Unit]:
    import sentencex

    # White space of more than one byte makes sentencex fail; line ends within a paragraph are
    # not ends of sentences. A space for each keeps every offset.
    paragraph = _SPACE.sub(" ", text[start:end])
    marks = _QUOTE_OR_ITEM_MARK.match(paragraph)
    skipped = marks.end() if marks else 0
    position = start + skipped
    for sentence in sentencex.segment(language, paragraph[skipped:]):
        yield from _trimmed(text, position, position + len(sentence), "sentence")
        position += len(sentence)


def _trimmed(text: str, start: int, end: int, kind: UnitKind) -> Iterator[Unit]:
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip())
    piece = piece.strip()
    if piece:
        yield Unit(start + left, start + left + len(piece), kind)
