"""Markdown: the source is the text; headings and tables are spans of it, front matter metadata."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.amsmath import amsmath_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin

from rag_cluster.config import Parse
from rag_cluster.parse.clean import clean, one_line
from rag_cluster.parse.parsed import Heading, Parsed, Span
from rag_cluster.parse.sniff import decode

PARSER = "markdown/1"

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_HTML_HEADING = re.compile(r"<h([1-6])\b[^>]*>(.*?)</h\1\s*>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_HEADING_ATTRIBUTES = re.compile(r"\s*\{[#.:][^}]*\}\s*$")  # Pandoc's {#anchor .class}
_LONGEST_HEADING = 250
_DATE = re.compile(r"^\d{4}-\d{2}-\d{2}")


def parse(data: bytes, config: Parse) -> Parsed:  # noqa: ARG001 - every parser takes the settings
    """The Markdown as it stands, without its YAML front matter."""
    fields, text = split_front_matter(clean(decode(data)))
    headings, tables = outline(text)
    title, author, date = fields.pop("title", None), _names(fields), fields.pop("date", None)
    return Parsed(
        text=text,
        parser=PARSER,
        title=None if title is None else str(title),
        author=author,
        date=_iso_date(date),
        headings=headings,
        tables=tables,
        metadata=fields,
    )


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The fields of the YAML front matter, and the text after it; no mapping there: ({}, text)."""
    found = _FRONT_MATTER.match(text)
    if found is None:
        return {}, text
    try:
        fields = yaml.safe_load(found.group(1))
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text
    if not isinstance(fields, dict):
        return {}, text
    return {str(name): value for name, value in fields.items()}, text[found.end() :]


def outline(text: str) -> tuple[list[Heading], list[Span]]:
    """Headings (ATX, setext, HTML) and tables of Markdown, as CommonMark and GFM define them.

    What stands in code, in formulas or inside quotes and lists is none.
    """
    starts = [0, *(match.end() for match in re.finditer("\n", text)), len(text)]
    headings: list[Heading] = []
    tables: list[Span] = []
    tokens = _reader().parse(text)
    for place, token in enumerate(tokens):
        if token.level != 0 or token.map is None:
            continue
        start, end = starts[token.map[0]], starts[min(token.map[1], len(starts) - 1)]
        if token.type == "heading_open":
            title = plain(tokens[place + 1].content)
            if title and len(title) <= _LONGEST_HEADING:
                headings.append(Heading(title, int(token.tag[1]), start, end))
        elif token.type == "html_block":
            headings.extend(_html_headings(text, start, end))
        elif token.type == "table_open":
            header_end = starts[min(token.map[0] + 2, len(starts) - 1)]
            tables.append(Span(start, end, header_end=min(header_end, end)))
    return headings, tables


def plain(source: str) -> str:
    """The words of inline Markdown, on one line and without markup."""
    source = _HEADING_ATTRIBUTES.sub("", source)
    if not re.search(r"[*_`\[\]<>\\&!]", source):
        return one_line(source)
    return one_line("".join(_words(_inline_reader().parseInline(source))))


@functools.cache
def _reader() -> MarkdownIt:
    """Blocks only: the words in a line are read for headings alone, which saves most time."""
    reader = MarkdownIt("commonmark").enable("table")
    dollarmath_plugin(reader, allow_blank_lines=False)
    amsmath_plugin(reader)
    return reader.disable(["inline"])


@functools.cache
def _inline_reader() -> MarkdownIt:
    return MarkdownIt("commonmark")


def _words(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type == "image":
            yield token.content
        elif token.children:
            yield from _words(token.children)
        elif token.type in {"softbreak", "hardbreak"}:
            yield " "
        elif token.type != "html_inline":
            yield token.content


def _html_headings(text: str, start: int, end: int) -> Iterator[Heading]:
    for found in _HTML_HEADING.finditer(text, start, end):
        title = one_line(_TAG.sub(" ", found.group(2)))
        if title and len(title) <= _LONGEST_HEADING:
            yield Heading(title, int(found.group(1)), found.start(), found.end())


def _names(fields: dict[str, Any]) -> str | None:
    """The author or authors, taken out of the fields."""
    value = fields.pop("author", None) or fields.pop("authors", None)
    if value is None:
        return None
    people = value if isinstance(value, list) else [value]
    names = [str(p.get("name", "")) if isinstance(p, dict) else str(p) for p in people]
    return ", ".join(name for name in names if name) or None


def _iso_date(value: Any) -> str | None:
    """ISO 8601 of a YAML date or of a text that begins with one; other texts as they are."""
    if value is None or value == "":
        return None
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    found = _DATE.match(str(value))
    return found.group() if found else str(value)
