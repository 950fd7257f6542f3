"""One PDF page as visual lines: pieces of text that share a baseline, from left to right.

Everything after this module works on these lines and never touches MuPDF again.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import pymupdf

# Plain characters instead of ligatures ("fi"), no images: the text is for searching.
FLAGS = pymupdf.TEXTFLAGS_DICT & ~pymupdf.TEXT_PRESERVE_IMAGES & ~pymupdf.TEXT_PRESERVE_LIGATURES

_BOLD_FLAG, _ITALIC_FLAG = pymupdf.TEXT_FONT_BOLD, pymupdf.TEXT_FONT_ITALIC
_FILLED_AND_STROKED = 16 | 32  # `char_flags`: how producers without a bold font draw bold
_BOLD_NAME = re.compile(r"bold|black|heavy|demi", re.IGNORECASE)
_UPRIGHT = (1, 0)
_WIDE_GAP = re.compile(r"\s{3,}|\t")
# Kept: the soft hyphen (it marks a line end), zero-width joiners (they change the script's shape).
_KEPT_INVISIBLE = "\u00ad\u200c\u200d"


class Segment(NamedTuple):
    """A piece of a line without a wide gap. Coordinates in points, y downwards."""

    x0: float
    x1: float
    top: float
    bottom: float
    baseline: float
    size: float
    bold: bool
    italic: bool
    text: str


Line = list[Segment]


@dataclass(slots=True)
class Page:
    """A page's lines from top to bottom. `stray` is text in another direction than the page's."""

    width: float
    height: float
    lines: list[Line] = field(default_factory=list)
    stray: list[Segment] = field(default_factory=list)
    failed: bool = False


def read_page(page: Any) -> Page:
    """The lines of a `pymupdf.Page`. Raises whatever MuPDF raises for a broken page."""
    content = page.get_text("dict", flags=FLAGS)
    upright: list[Segment] = []
    by_direction: dict[tuple[int, int], list[Segment]] = {_UPRIGHT: upright}
    width, height = content["width"], content["height"]
    for block in content["blocks"]:
        for line in block.get("lines", ()):
            spans = line["spans"]
            if len(spans) == 1 and spans[0]["text"].isspace():
                continue
            if line["dir"] == _UPRIGHT:
                _add_segments(line, _UPRIGHT, width, height, upright)
                continue
            cosine, sine = line["dir"]
            direction = (round(cosine), round(sine)) if abs(cosine * sine) < 0.01 else (0, 0)
            segments = by_direction.setdefault(direction, [])
            _add_segments(line, direction, width, height, segments)
    if len(by_direction) == 1:
        return Page(width, height, group_lines(upright))
    counts = Counter(
        {d: sum(len(s.text) for s in ss) for d, ss in by_direction.items() if any(d) and ss}
    )
    if not counts:
        return Page(width, height, [], by_direction.get((0, 0), []))
    main = counts.most_common(1)[0][0]
    stray = [s for d, segments in by_direction.items() if d != main for s in segments]
    if main[0] == 0:
        width, height = height, width
    return Page(width, height, group_lines(by_direction[main]), stray)


def _add_segments(
    line: dict[str, Any],
    direction: tuple[int, int],
    width: float,
    height: float,
    segments: list[Segment],
) -> None:
    """Append the segments of one MuPDF line, turned upright."""
    spans = line["spans"]
    if len(spans) == 1:
        span = spans[0]
        raw = span["text"]
        bold = _is_bold(span["font"], span["flags"], span["char_flags"])
    else:
        raw = "".join([span["text"] for span in spans])
        spans = [span for span in spans if not span["text"].isspace()]
        if not spans:
            return
        span = max(spans, key=_length) if len(spans) > 1 else spans[0]
        characters = [
            len(s["text"]) * (1 if _is_bold(s["font"], s["flags"], s["char_flags"]) else -9)
            for s in spans
        ]
        bold = sum(characters) >= 0  # nine tenths of the characters
    text = clean(raw)
    if not text:
        return
    size, italic = span["size"], bool(span["flags"] & _ITALIC_FLAG)
    if direction is _UPRIGHT:
        x0, top, x1, bottom = line["bbox"]
        baseline = span["origin"][1]
    else:
        x0, top, x1, bottom, baseline = _upright(
            line["bbox"], span["origin"], direction, width, height
        )
    if "   " in raw or "\t" in raw:
        for start, end, part in _split_at_gaps(raw, x0, x1):
            segments.append(Segment(start, end, top, bottom, baseline, size, bold, italic, part))
    else:
        segments.append(Segment(x0, x1, top, bottom, baseline, size, bold, italic, text))


def _length(span: dict[str, Any]) -> int:
    return len(span["text"])


@lru_cache(maxsize=4096)
def _is_bold(font: str, flags: int, char_flags: int) -> bool:
    return bool(
        flags & _BOLD_FLAG
        or char_flags & _FILLED_AND_STROKED == _FILLED_AND_STROKED
        or _BOLD_NAME.search(font)
    )


def _upright(
    box: tuple[float, float, float, float],
    origin: tuple[float, float],
    direction: tuple[int, int],
    width: float,
    height: float,
) -> tuple[float, float, float, float, float]:
    """(x0, top, x1, bottom, baseline) in the coordinates of a reader who turned the page."""
    x0, y0, x1, y1 = box
    match direction:
        case (0, -1):
            return height - y1, x0, height - y0, x1, origin[0]
        case (0, 1):
            return y0, width - x1, y1, width - x0, width - origin[0]
        case (-1, 0):
            return width - x1, height - y1, width - x0, height - y0, height - origin[1]
        case _:
            return x0, y0, x1, y1, origin[1]


def _split_at_gaps(raw: str, x0: float, x1: float) -> list[tuple[float, float, str]]:
    """Parts between runs of three or more blanks, with positions in proportion to the length."""
    parts, position = [], 0
    per_character = (x1 - x0) / max(1, len(raw))
    for gap in [*_WIDE_GAP.finditer(raw), None]:
        end = len(raw) if gap is None else gap.start()
        part = clean(raw[position:end])
        if part:
            parts.append((x0 + position * per_character, x0 + end * per_character, part))
        position = end if gap is None else gap.end()
    return parts


def clean(text: str) -> str:
    """One line of text: single blanks, no control characters, no lone surrogates."""
    text = " ".join(text.split())
    if text.isprintable():
        return text
    body = "".join([c for c in text if c.isprintable() or c in _KEPT_INVISIBLE])
    if "\u00ad" in body:
        body = body[:-1].replace("\u00ad", "") + body[-1]
    return " ".join(body.split())


def group_lines(segments: list[Segment]) -> list[Line]:
    """Segments with about the same baseline form a line; lines from top to bottom.

    The tolerance (0.4 of the font size) holds a raised footnote mark or a value that is centred
    beside a label of two lines, and stays below any usual distance of lines.
    """
    lines: list[Line] = []
    anchor = size = 0.0
    for segment in sorted(segments, key=lambda s: (s.baseline, s.x0)):
        if lines:
            small, large = sorted((segment.size, size))
            tolerance = 0.4 * (large if small >= 0.55 * large else small)
            if segment.baseline - anchor <= tolerance:
                lines[-1].append(segment)
                continue
        lines.append([segment])
        anchor, size = segment.baseline, segment.size
    for line in lines:
        if len(line) > 1:
            line.sort(key=lambda s: s.x0)
            _drop_overprint(line)
    return lines


def _drop_overprint(line: Line) -> None:
    """Text drawn twice at one place (a poor man's bold, a shadow) counts once."""
    for i in range(len(line) - 1, 0, -1):
        first, second = line[i - 1], line[i]
        if first.text == second.text and abs(first.x0 - second.x0) < 0.2 * second.size:
            line[i - 1] = first._replace(bold=True)
            del line[i]
