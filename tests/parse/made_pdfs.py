"""PDFs made on the spot: each test draws the page that it is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import pymupdf

from rag_cluster.config import Parse
from rag_cluster.parse import pdf
from rag_cluster.parse.parsed import Parsed

BODY, BOLD = "helv", "hebo"
WIDTH, HEIGHT = 595, 842
_FONT = pymupdf.Font(BODY)

_WORDS = """
    the river carried cold water from the mountains down to the quiet villages where people
    had built small mills along its banks and every spring the floods came back and left new
    soil on the fields so that farmers could plant early and harvest before the long rains
    began while merchants travelled between the markets with salt and cloth and copper tools
"""
WORDS = tuple(_WORDS.split())


class Drawing:
    """A PDF in the making. Coordinates in points from the top left, y at the baseline."""

    def __init__(self) -> None:
        self.document = pymupdf.open()
        self.page = None
        self._shape = None

    def new_page(self) -> Drawing:
        self._finish_page()
        self.page = self.document.new_page(width=WIDTH, height=HEIGHT)
        self._shape = self.page.new_shape()
        return self

    def _finish_page(self) -> None:
        if self._shape is not None:
            self._shape.commit()
            self._shape = self.page.new_shape()

    def line(
        self, y: float, text: str, x: float = 60, size: float = 10, font: str = BODY
    ) -> Drawing:
        self._shape.insert_text((x, y), text, fontsize=size, fontname=font)
        return self

    def lines(self, y: float, texts: Iterable[str], x: float = 60, leading: float = 13) -> float:
        """One line of text below the other; returns y of the line after them."""
        for text in texts:
            self.line(y, text, x)
            y += leading
        return y

    def row(self, y: float, cells: Sequence[str], xs: Sequence[float], font: str = BODY) -> Drawing:
        for cell, x in zip(cells, xs, strict=True):
            self.line(y, cell, x, font=font)
        return self

    def bytes(self, **options: object) -> bytes:
        self._finish_page()
        return self.document.tobytes(**options)

    def parse(self, mode: str = "fast") -> Parsed:
        return pdf.parse(self.bytes(), Parse(mode=mode))


@lru_cache(maxsize=1024)
def _width(text: str, size: float) -> float:
    return _FONT.text_length(text, fontsize=size)


def prose(lines: int, width: float, start: int = 0, size: float = 10) -> list[str]:
    """Lines of running words that fill `width` points, a sentence of about thirty words each."""
    made: list[str] = []
    at = start
    current = WORDS[at % len(WORDS)].capitalize()
    while len(made) < lines:
        at += 1
        word = WORDS[at % len(WORDS)]
        if (at - start) % 30 == 0:
            current, word = current + ".", word.capitalize()
        longer = f"{current} {word}"
        if sum(_width(part, size) for part in longer) > width:
            made.append(current)
            current = word
        else:
            current = longer
    return made


def page_text(parsed: Parsed, number: int) -> str:
    span = parsed.pages[number - 1]
    assert span.number == number
    return parsed.text[span.start : span.end]


def outline(parsed: Parsed) -> list[tuple[int, str]]:
    return [(heading.level, heading.title) for heading in parsed.headings]
