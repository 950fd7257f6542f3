"""PDF, with PyMuPDF: text in reading order, headings, table rows, pages.

pdf_page      a page's lines          pdf_headings  which rows are headings, of which level
pdf_running   running lines left out  pdf_outline   ... by the PDF's own outline
pdf_columns   reading order           pdf_text      one text and its spans
pdf_rows      rows and their cells    pdf_tables, pdf_layout  the slower modes
"""

from __future__ import annotations

from typing import Any

import pymupdf

from rag_cluster.config import Parse
from rag_cluster.parse.parsed import Parsed, ParseError
from rag_cluster.parse.pdf_columns import find_gutter, reading_order, usual_gutter
from rag_cluster.parse.pdf_headings import find_headings
from rag_cluster.parse.pdf_layout import read_layout
from rag_cluster.parse.pdf_metadata import iso_date, useful_author, useful_title
from rag_cluster.parse.pdf_outline import match_outline, read_outline
from rag_cluster.parse.pdf_page import Page, group_lines, read_page
from rag_cluster.parse.pdf_rows import Row, make_rows
from rag_cluster.parse.pdf_running import find_repeated_stray, find_running
from rag_cluster.parse.pdf_tables import replace_tables
from rag_cluster.parse.pdf_text import Text, assemble

# The C library writes its warnings about damaged files to the terminal; they are errors of ours.
pymupdf.TOOLS.mupdf_display_errors(0)
pymupdf.TOOLS.mupdf_display_warnings(0)

_SCANNED_TEXT = 30  # fewer characters a page than this, over a page-filling image, are no text
_SCANNED_COVER = 0.5  # of the page's area
_SAMPLED_PAGES = 20


def parse(data: bytes, config: Parse) -> Parsed:
    """Parse a PDF in the mode that `config.mode` names.

    Raises ParseError with one of the reasons "encrypted", "damaged", "no text layer: needs OCR",
    "empty". Pages that MuPDF cannot read are left out and listed (from 1) in
    `metadata["pages_failed"]`.
    """
    document = _open(data)
    try:
        failed: list[int] = []
        if config.mode == "layout":
            content = read_layout(document)
            characters = len(content.text)
        else:
            pages = [_read(document, index) for index in range(document.page_count)]
            failed = [number for number, page in enumerate(pages, start=1) if page.failed]
            characters = sum(len(s.text) for p in pages for line in p.lines for s in line)
            characters += sum(len(s.text) for p in pages for s in p.stray)
            if len(failed) == len(pages):
                raise ParseError("damaged", "none of its pages can be read")
            content = _fast(document, pages, tables=config.mode == "tables")
        _require_text(document, characters)
        return _parsed(document, content, config.mode, failed)
    finally:
        document.close()


def _open(data: bytes) -> Any:
    try:
        document = pymupdf.open(stream=data, filetype="pdf")
        if document.needs_pass and not document.authenticate(""):
            raise ParseError("encrypted", "the file needs a password")
        if document.page_count == 0:
            raise ParseError("damaged", "no pages can be found in the file")
    except (RuntimeError, ValueError, IndexError, KeyError) as error:
        raise ParseError("damaged", " ".join(str(error).split())[:300]) from error
    return document


def _read(document: Any, index: int) -> Page:
    try:
        return read_page(document[index])
    except (RuntimeError, ValueError, IndexError, KeyError, TypeError, AssertionError):
        return Page(0.0, 0.0, failed=True)


def _fast(document: Any, pages: list[Page], *, tables: bool) -> Text:
    running = find_running(pages)
    repeated_stray = find_repeated_stray(pages)
    for page, indexes in zip(pages, running, strict=True):
        if indexes:
            page.lines = [line for i, line in enumerate(page.lines) if i not in indexes]
    gutters = [find_gutter(page.lines) for page in pages]
    usual = usual_gutter(gutters)
    rows: list[Row] = []
    for number, page in enumerate(pages):
        page_rows: list[Row] = []
        for region, left, right in reading_order(page.lines, gutters[number], usual):
            page_rows += make_rows(region, left, right, number, page.width / 2)
        if tables and page_rows:
            page_rows = _with_tables(document, page_rows, page, number)
        stray = [segment for segment in page.stray if segment.text not in repeated_stray]
        for line in group_lines(stray):
            page_rows += make_rows([line], line[0].x0, line[-1].x1, number)
        rows += page_rows
        page.lines, page.stray = [], []  # a file of 10,000 pages: keep one form of it
    marks = match_outline(read_outline(document), rows, len(pages))
    if marks is None:
        marks = find_headings(rows)
    return assemble(rows, marks, len(pages))


def _with_tables(document: Any, rows: list[Row], page: Page, number: int) -> list[Row]:
    try:
        return replace_tables(rows, document[number], [s for line in page.lines for s in line])
    except (RuntimeError, ValueError, IndexError, KeyError, TypeError, ZeroDivisionError):
        return rows  # the finder failed: the rows with their cells are still there


def _require_text(document: Any, characters: int) -> None:
    """Raise ParseError for a document without text: images of text, or nothing at all."""
    count = document.page_count
    if characters >= _SCANNED_TEXT * count:
        return
    step = max(1, count // _SAMPLED_PAGES)
    sampled = [document[index] for index in range(0, count, step)]
    covered = sum(_image_cover(page) >= _SCANNED_COVER for page in sampled)
    if covered > 0.5 * len(sampled):
        raise ParseError("no text layer: needs OCR", f"{count} pages, {characters} characters")
    if characters:
        return
    if any(_image_cover(page) > 0 or _has_drawings(page) for page in sampled):
        raise ParseError("no text layer: needs OCR", f"{count} pages, no characters")
    raise ParseError("empty", f"{count} pages without text and images")


def _image_cover(page: Any) -> float:
    """Share of the page's area under images."""
    try:
        area = abs(page.rect.get_area()) or 1.0
        boxes = [pymupdf.Rect(info["bbox"]) & page.rect for info in page.get_image_info()]
        return float(min(1.0, sum(abs(box.get_area()) for box in boxes) / area))
    except (RuntimeError, ValueError, IndexError, KeyError):
        return 0.0


def _has_drawings(page: Any) -> bool:
    """Many small paths: letters drawn as outlines."""
    try:
        return len([kind for kind, _ in page.get_bboxlog() if kind == "fill-path"]) >= 50
    except (RuntimeError, ValueError):
        return False


def _parsed(document: Any, content: Text, mode: str, failed: list[int]) -> Parsed:
    about = document.metadata or {}
    metadata: dict[str, Any] = {"page_count": document.page_count}
    for key in ("subject", "keywords"):
        if about.get(key):
            metadata[key] = " ".join(about[key].split())
    if failed:
        metadata["pages_failed"] = failed
    return Parsed(
        text=content.text,
        parser=f"pymupdf-{pymupdf.VersionBind}:{mode}",
        title=useful_title(about.get("title")),
        author=useful_author(about.get("author")),
        date=iso_date(about.get("creationDate")) or iso_date(about.get("modDate")),
        headings=content.headings,
        pages=content.pages,
        tables=content.tables,
        metadata=metadata,
    )
