"""HTML: the main text of a page, with its headings, lists and tables as Markdown.

Trafilatura tells the main text from navigation, teasers and comments, in its fast mode, which found
the true text of articles best. Where a page is short, has hardly a link or is nearly all text,
there is nothing to tell apart, and where trafilatura finds nothing there is nothing to lose: then
the body itself is walked, which keeps every heading.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import lxml.html
import trafilatura
from lxml import etree

from rag_cluster.config import Parse
from rag_cluster.parse.blocks import Block, assemble
from rag_cluster.parse.clean import clean
from rag_cluster.parse.html_blocks import blocks_of
from rag_cluster.parse.parsed import Parsed, ParseError
from rag_cluster.parse.sniff import decode

PARSER = f"html/1 trafilatura-{trafilatura.__version__}"

_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_WORD = re.compile(r"\w")
_SHORT_PAGE = 600  # letters and digits
_NEARLY_ALL = 0.97
_FEW_LINKS = 0.08  # of its letters; a page with navigation and teasers has many times as many

logging.getLogger("trafilatura").addHandler(logging.NullHandler())


def parse(data: bytes, config: Parse) -> Parsed:  # noqa: ARG001 - every parser takes the settings
    """The main text of the page, else all text of its body. Raises ParseError("damaged")."""
    source = _DECLARATION.sub("", clean(decode(data, markup=True)))
    if not source.strip():
        return Parsed(text="", parser=PARSER)
    try:
        tree = lxml.html.document_fromstring(source)
    except (etree.LxmlError, ValueError) as error:
        raise ParseError("damaged", f"{type(error).__name__}: {error}") from None
    page = trafilatura.bare_extraction(
        source,
        fast=True,
        include_comments=False,
        include_tables=True,
        include_formatting=True,
        with_metadata=True,
        date_extraction_params={"original_date": True, "extensive_search": False},
    )
    text, headings, tables = assemble(_choose(page, tree))
    return Parsed(
        text=text,
        parser=PARSER,
        title=(page.title if page is not None else None) or tree.findtext(".//title"),
        author=page.author if page is not None else None,
        date=page.date if page is not None else None,
        headings=headings,
        tables=tables,
        metadata=_metadata(page),
    )


def _choose(page: Any, tree: Any) -> list[Block]:
    """The blocks of the main text, or of the body where that serves better."""
    body = tree.find("body")
    body = tree if body is None else body
    main = [] if page is None or page.body is None else list(blocks_of(page.body))
    inner = list(blocks_of(body, around=False))
    have, there = _letters(main), _letters(inner)
    whole = there < _SHORT_PAGE or have >= _NEARLY_ALL * there
    if there and (whole or _linked(body) < _FEW_LINKS * there):
        return inner
    return main if have else list(blocks_of(body))


def _linked(body: Any) -> int:
    return sum(len(_WORD.findall(link.xpath("string()"))) for link in body.iter("a"))


def _letters(blocks: list[Block]) -> int:
    cells = (cell for block in blocks for row in block.rows for cell in row)
    return sum(len(_WORD.findall(text)) for text in (*(block.text for block in blocks), *cells))


def _metadata(page: Any) -> dict[str, Any]:
    if page is None:
        return {}
    names = {"site": page.sitename, "description": page.description, "language": page.language}
    return {name: value for name, value in names.items() if value}
