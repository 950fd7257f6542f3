"""One file to its DOCUMENT rows: sniff, parse, clean, choose the title, say how it went.

Runs in the child process of `isolate`. Each format's parser, with its library, is imported when the
first file of its kind comes.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import PurePath

from rag_cluster.config import Parse
from rag_cluster.parse.clean import one_line, scrub
from rag_cluster.parse.parsed import Parsed, ParseError, Span
from rag_cluster.parse.rows import Row, dump_metadata, failed_row, make_row
from rag_cluster.parse.sections import build_sections
from rag_cluster.parse.sniff import Kind, Sniffed, sniff
from rag_cluster.parse.titles import choose_title

# Raised by one when its rows change for the same file: rows of different versions differ by name.
PARSER_VERSION = 1

_OUT_OF_MEMORY = re.compile(
    r"MemoryError|bad_alloc|(?:m|re|c)alloc\b.*fail|cannot allocate", re.IGNORECASE
)


def parse_file(data: bytes, uri: str, config: Parse) -> list[Row]:
    """The DOCUMENT rows of a file's bytes: one, or one for each record of a file of records.

    Never raises for what is wrong with the file: that is a row with status "failed", the reason in
    `error` and what exactly happened in `detail`. A MemoryError goes through, for the process
    should not go on.
    """
    if not data:
        return [make_row(uri, data, status="empty", error="empty file")]
    sniffed: Sniffed | None = None
    try:
        sniffed = sniff(data, uri)
        if sniffed.kind == "jsonl":
            from rag_cluster.parse import records

            return records.parse_jsonl(data, uri, config)
        if sniffed.kind == "parquet":
            from rag_cluster.parse import records

            return records.parse_parquet(data, uri, config)
        return [_document(_parse(data, sniffed, config), data, uri, sniffed)]
    except ParseError as error:
        if error.reason == "empty":
            row = make_row(uri, data, status="empty", error="no text", detail=error.detail)
        else:
            row = failed_row(uri, error.reason, error.detail, data)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a library raises is this file's failure
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{PurePath(place.filename).name}:{place.lineno}"
        detail = f"{type(error).__name__}: {error} ({where})"
        reason = "out of memory" if _OUT_OF_MEMORY.search(detail) else "parser error"
        row = failed_row(uri, reason, detail, data)
    row["media_type"] = None if sniffed is None else sniffed.media_type
    return [row]


def _parse(data: bytes, sniffed: Sniffed, config: Parse) -> Parsed:
    if sniffed.kind == "unsupported":
        if sniffed.encrypted:
            raise ParseError("encrypted", "an Office file that needs a password")
        raise ParseError("unsupported type", sniffed.media_type)
    return _parser(sniffed.kind)(data, config)


def _parser(kind: Kind) -> Callable[[bytes, Parse], Parsed]:
    match kind:
        case "pdf":
            from rag_cluster.parse import pdf

            return pdf.parse
        case "html":
            from rag_cluster.parse import html

            return html.parse
        case "markdown":
            from rag_cluster.parse import markdown

            return markdown.parse
        case "docx":
            from rag_cluster.parse import docx

            return docx.parse
        case _:
            from rag_cluster.parse import text

            return text.parse


def _document(parsed: Parsed, data: bytes, uri: str, sniffed: Sniffed) -> Row:
    text = scrub(parsed.text)
    title = choose_title(parsed.title, parsed.headings, uri)
    blank = not text.strip()
    own = {"author": parsed.author, "date": parsed.date}
    own = {name: one_line(scrub(value)) for name, value in own.items() if value}
    return make_row(
        uri,
        data,
        media_type=sniffed.media_type,
        title=title,
        text=text,
        pages=[{"number": s.number, "start": s.start, "end": s.end} for s in parsed.pages],
        sections=build_sections(text, parsed.headings, title),
        tables=[_table(span) for span in parsed.tables],
        metadata=dump_metadata({**parsed.metadata, **own}),
        parser=f"{parsed.parser}/{PARSER_VERSION}",
        status="empty" if blank else "ok",
        error="no text" if blank else None,
    )


def _table(span: Span) -> dict[str, int]:
    header_end = span.start if span.header_end is None else span.header_end
    return {"start": span.start, "header_end": header_end, "end": span.end}
