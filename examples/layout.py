"""Lay the blocks of an example document out on PDF pages."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pymupdf

from examples.source import Block

WIDTH, HEIGHT = 595, 842  # A4, in points
MARGIN, TOP, BOTTOM, GUTTER = 64, 88, 770, 22
SIZE = 10.5
HEADING_SIZES = {1: 19.0, 2: 14.0, 3: 11.5}
# One token is a word, a run of spaces, or a Chinese character with the punctuation after it.
TOKEN = re.compile(
    r"[\u3000-\u9fff\uff00-\uffef][\uff0c\u3002\uff1b\uff1a\u3001\uff09]*|[^\s\u3000-\u9fff\uff00-\uffef]+|\s+"
)
# Where an English word may be parted: after a vowel, before a consonant and a vowel.
SYLLABLE = re.compile(r"(?<=[aeiou])(?=[bcdfghlmnprstv][aeiou])")


class Layout:
    """Writes blocks one below the other, in one or two columns, onto as many pages as they need.

    `front` is the front matter: `running` (the header line), `columns`, `outline`, `language` and
    `page_word` (what stands before the page number).
    """

    def __init__(self, front: dict[str, Any]) -> None:
        self.front = front
        self.columns = int(front.get("columns", 1))
        self.width = (WIDTH - 2 * MARGIN - GUTTER * (self.columns - 1)) / self.columns
        self.fonts = self._fonts()
        self.document = pymupdf.open()
        self.outline: list[tuple[int, str, int]] = []
        self._new_page()

    def place(self, block: Block) -> None:
        """Write one block where the last one ended."""
        match block.kind:
            case "page":
                self._new_page()
            case "heading":
                self._heading(block)
            case "table":
                self._table(block.rows)
            case "item":
                self._lines("\u2022 " + block.text, self.fonts[0], SIZE, indent=12)
                self.y += 2
            case "formula":
                self._lines(block.text, self.fonts[2], SIZE, indent=24)
                self.y += 7
            case _:
                self._lines(block.text, self.fonts[0], SIZE)
                self.y += 7

    def finish(self) -> pymupdf.Document:
        """The document, with running lines on every page, and the outline if it has one."""
        for page in self.document:
            self._running_lines(page)
        if self.front.get("outline"):
            self.document.set_toc([list(entry) for entry in self.outline])
        return self.document

    def _fonts(self) -> tuple[str, str, str]:
        if self.front.get("language") == "zh":
            return "china-s", "china-s", "china-s"
        if self.columns == 2:
            return "tiro", "tibo", "tiit"
        return "helv", "hebo", "heit"

    def _new_page(self) -> None:
        self.page = self.document.new_page(width=WIDTH, height=HEIGHT)
        self.column, self.x, self.y = 0, float(MARGIN), float(TOP)
        self.column_top = float(TOP)

    def _need(self, height: float) -> None:
        if self.y + height <= BOTTOM:
            return
        if self.column + 1 < self.columns:
            self.column += 1
            self.x += self.width + GUTTER
            self.y = self.column_top
        else:
            self._new_page()

    def _heading(self, block: Block) -> None:
        size = HEADING_SIZES[block.level] - (1 if self.columns == 2 else 0)
        width = self.width
        if block.level == 1:  # a title stands above both columns
            self.width = WIDTH - 2 * MARGIN
        else:
            self._need(4 * SIZE + size)
            self.y += 6
        self.outline.append((block.level, block.text, self.document.page_count))
        self._lines(block.text, self.fonts[1], size)
        self.y += 5
        self.width = width
        if block.level == 1:
            self.column_top = self.y

    def _lines(self, text: str, font: str, size: float, indent: float = 0) -> None:
        for line in wrap(text, font, size, self.width - indent, hyphenate=self.columns == 2):
            self._need(size * 1.3)
            self.y += size * 1.3
            at = (self.x + indent, self.y)
            self.page.insert_text(at, line, fontname=font, fontsize=size)

    def _table(self, rows: list[list[str]]) -> None:
        size, pad = SIZE - 1.5, 4.0
        widths = self._column_widths(rows, size, pad)
        for number, row in enumerate(rows):
            font = self.fonts[1 if number == 0 else 0]
            cells = [
                wrap(text, font, size, width - 2 * pad)
                for text, width in zip(row, widths, strict=True)
            ]
            height = max(len(lines) for lines in cells) * size * 1.25 + 6
            self._need(height)
            left = self.x
            for lines, width in zip(cells, widths, strict=True):
                self.page.draw_rect((left, self.y, left + width, self.y + height), width=0.5)
                for index, line in enumerate(lines):
                    at = (left + pad, self.y + 2 + (index + 1) * size * 1.2)
                    self.page.insert_text(at, line, fontname=font, fontsize=size)
                left += width
            self.y += height
        self.y += 9

    def _column_widths(self, rows: list[list[str]], size: float, pad: float) -> list[float]:
        longest = [
            max(text_length(cell, self.fonts[1], size) for cell in column) + 2 * pad + 1
            for column in zip(*rows, strict=True)
        ]
        shrink = min(1.0, self.width / sum(longest))
        return [width * shrink for width in longest]

    def _running_lines(self, page: pymupdf.Page) -> None:
        word = self.front.get("page_word", "Page")
        number = f"{word} {page.number + 1} / {self.document.page_count}"
        font = self.fonts[0]
        page.insert_text((MARGIN, 50), self.front.get("running", ""), fontname=font, fontsize=8)
        page.draw_line((MARGIN, 56), (WIDTH - MARGIN, 56), width=0.4)
        page.insert_text((WIDTH / 2 - 20, 806), number, fontname=font, fontsize=8)


def text_length(text: str, font: str, size: float) -> float:
    """The width of a text in points; there is no kerning, so characters are measured once each."""
    return size * sum(_advance(character, font) for character in text)


@cache
def _advance(character: str, font: str) -> float:
    return float(pymupdf.get_text_length(character, font, 1))


def wrap(text: str, font: str, size: float, width: float, *, hyphenate: bool = False) -> list[str]:
    """The text in lines of at most `width` points; long words are parted if `hyphenate`."""
    lines: list[str] = []
    line = ""
    for token in TOKEN.findall(text):
        if text_length(line + token.rstrip(), font, size) <= width:
            line += token
            continue
        head, tail = "", token
        if hyphenate and len(token) > 7 and token.isalpha():
            head, tail = _part(token, width - text_length(line, font, size), font, size)
        lines.append((line + head).rstrip())
        line = tail.lstrip()
    return [*lines, line.rstrip()] if line.strip() else lines


def _part(word: str, room: float, font: str, size: float) -> tuple[str, str]:
    for match in reversed(list(SYLLABLE.finditer(word, 3, len(word) - 2))):
        head = word[: match.start()] + "-"
        if text_length(head, font, size) <= room:
            return head, word[match.start() :]
    return "", word
