"""Where a text may be cut: after paragraphs, lines, sentences, words, tokens."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

from sentencex import segment

from rag_cluster.chunk.whole import Span, outside

_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")
_LINE = re.compile(r"\n\s*")
_BLOCK = 2_000
_WORD = re.compile(r"(?<=\s)\S")


@dataclass(frozen=True, slots=True)
class Breaks:
    """Positions at which a chunk may end and the next begin; each level holds those before it.

    Each list is sorted. No break stands at white space, none inside a formula, and none inside
    fenced code that is kept.
    """

    paragraphs: list[int]
    lines: list[int]
    sentences: list[int]
    words: list[int]
    tokens: list[int]


def find_breaks(
    text: str, tokens: list[int], edges: Iterable[int], fences: list[Span], whole: list[Span]
) -> Breaks:
    """The breaks of a text. `tokens`: starts of its tokens; `edges`: further paragraph breaks.

    `fences` are code, in which every line is one; `whole` is what must not be cut.
    """
    paragraphs = {match.end() for match in _BLANK_LINES.finditer(text)}
    marks = [*edges, *(position for span in fences for position in span)]
    paragraphs.update(next_character(text, position) for position in marks)
    lines = paragraphs | set(_line_breaks(text, fences))
    sentences = lines | set(_sentence_breaks(text, sorted(paragraphs)))
    words = sentences | {match.start() for match in _WORD.finditer(text)}
    levels = (paragraphs, lines, sentences, words, words.union(tokens))
    return Breaks(*(outside(sorted(level), whole) for level in levels))


def _line_breaks(text: str, fences: list[Span]) -> Iterable[int]:
    """Line breaks, without those of wrapped text.

    There the next line goes on in lower case, and a cut would fall into a sentence.
    """
    wrapped = [match.end() for match in _LINE.finditer(text)]
    prose = [p for p in wrapped if p < len(text) and not text[p].islower()]
    code = [p for start, end in fences for p in _positions(text, start, end)]
    return [*prose, *code]


def next_character(text: str, position: int) -> int:
    """The position, or that of the first character behind it which is not white space."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _positions(text: str, start: int, end: int) -> list[int]:
    return [match.end() for match in _LINE.finditer(text, start, end)]


def _sentence_breaks(text: str, paragraphs: list[int]) -> Iterable[int]:
    """Starts of sentences, of each paragraph by itself.

    A long paragraph is segmented block by block, each from the last sentence that the one before
    began, because the segmenter takes quadratic time where no space is.
    """
    found: list[int] = []
    edges = [0, *(p for p in paragraphs if 0 < p < len(text)), len(text)]
    for start, end in itertools.pairwise(edges):
        position = start
        while position < end:
            block_end = min(end, position + _BLOCK)
            starts = _sentences(text, position, block_end)
            found.extend(starts)
            position = starts[-1] if block_end < end and len(starts) > 1 else block_end
    return found


def _sentences(text: str, start: int, end: int) -> list[int]:
    """Starts of the sentences of a block, looked up in it: the segmenter may drop line breaks.

    Its rules for English serve the full stops of other scripts as well.
    """
    starts: list[int] = []
    for sentence in segment("en", text[start:end]):
        bare = sentence.strip()
        at = text.find(bare, start, end) if bare else -1
        if at >= 0:
            starts.append(at)
            start = at + len(bare)
    return starts
