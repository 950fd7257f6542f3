"""DOCX: paragraphs, headings, lists, tables and footnotes in the order of the body, as Markdown."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import docx
from docx.opc.exceptions import PackageNotFoundError
from lxml import etree

from rag_cluster.config import Parse
from rag_cluster.parse.blocks import Block, assemble, table_block
from rag_cluster.parse.docx_styles import Styles, read_styles
from rag_cluster.parse.docx_words import W, local, words
from rag_cluster.parse.parsed import Parsed, ParseError

PARSER = f"docx/1 python-docx-{docx.__version__}"

_LARGEST_PART = 512 * 1024 * 1024
_MOST_INFLATED = 2 * 1024 * 1024 * 1024
_DEEPEST = 200
# What holds block content without being any itself.
_CONTAINERS = {"sdt", "sdtContent", "customXml", "ins", "moveTo", "smartTag", "txbxContent"}


def parse(data: bytes, config: Parse) -> Parsed:  # noqa: ARG001 - every parser takes the settings
    """The document's body and notes. Headers and footers of pages are left out.

    Raises ParseError("damaged") where it is no readable package, and ParseError("too large") where
    it would inflate beyond reason.
    """
    document = _open(data)
    styles = read_styles(document)
    body = document.element.body
    blocks = list(_blocks(body, styles, 0)) if body is not None else []
    blocks.extend(_notes(document, "footnotes", "footnote"))
    blocks.extend(_notes(document, "endnotes", "endnote"))
    text, headings, tables = assemble(blocks)
    title, author, date, metadata = _properties(document, blocks)
    return Parsed(
        text=text,
        parser=PARSER,
        title=title,
        author=author,
        date=date,
        headings=headings,
        tables=tables,
        metadata=metadata,
    )


def _open(data: bytes) -> Any:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            sizes = [entry.file_size for entry in archive.infolist()]
            if any(entry.flag_bits & 1 for entry in archive.infolist()):
                raise ParseError("encrypted", "the archive needs a password")
        if max(sizes, default=0) > _LARGEST_PART or sum(sizes) > _MOST_INFLATED:
            raise ParseError("too large", f"it inflates to {sum(sizes)} bytes")
        return docx.Document(io.BytesIO(data))
    except ParseError:
        raise
    except (
        zipfile.BadZipFile,
        PackageNotFoundError,
        etree.LxmlError,
        KeyError,
        ValueError,
        AttributeError,
        OSError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        zipfile.zlib.error,  # type: ignore[attr-defined]
    ) as error:
        raise ParseError("damaged", f"{type(error).__name__}: {error}") from None


def _blocks(parent: Any, styles: Styles, depth: int) -> Iterator[Block]:
    if depth > _DEEPEST:
        return
    for child in parent:
        name = local(child)
        if name == "p":
            yield from _paragraph(child, styles, depth)
        elif name == "tbl":
            yield from _table(child, styles, depth)
        elif name in _CONTAINERS:
            yield from _blocks(child, styles, depth + 1)
        elif name == "AlternateContent":
            chosen = next((c for c in child if local(c) == "Choice"), None)
            yield from _blocks(child if chosen is None else chosen, styles, depth + 1)


def _paragraph(paragraph: Any, styles: Styles, depth: int) -> Iterator[Block]:
    text = words(paragraph).strip()
    level = styles.heading_level(paragraph)
    if text and level is not None:
        yield Block("heading", text, level=level)
    elif text:
        item = styles.list_item(paragraph)
        if item is not None:
            yield Block("item", text, level=item[0], marker=item[1])
        elif styles.is_code(paragraph):
            yield Block("code", text)
        else:
            yield Block("paragraph", text)
    # A text box stands after the paragraph that it is anchored in; Word writes it twice, as drawing
    # and as fallback.
    for box in paragraph.iter(f"{W}txbxContent"):
        ancestors = [local(ancestor) for ancestor in box.iterancestors()]
        if "Fallback" not in ancestors[: ancestors.index("p") + 1] or _only_fallback(box):
            yield from _blocks(box, styles, depth + 1)


def _only_fallback(box: Any) -> bool:
    """Whether the drawing beside this fallback holds no text box of its own."""
    outer = next((a for a in box.iterancestors() if local(a) == "AlternateContent"), None)
    choices = [] if outer is None else [child for child in outer if local(child) == "Choice"]
    return not any(next(choice.iter(f"{W}txbxContent"), None) is not None for choice in choices)


def _table(table: Any, styles: Styles, depth: int) -> Iterator[Block]:
    grid = [_cells(row) for row in _children(table, "tr")]
    if max((len(line) for line in grid), default=0) < 2:
        # One column frames text; it is no table.
        for line in grid:
            for cell, _ in line:
                if cell is not None:
                    yield from _blocks(cell, styles, depth + 1)
        return
    texts = [[text for _, text in line] for line in grid]
    block = table_block(texts)
    if block is not None:
        yield block


def _cells(row: Any) -> list[tuple[Any, str]]:
    """Cells with their texts; what spans several columns or rows stands in the first of them."""
    line: list[tuple[Any, str]] = [(None, "")] * _number(row, "trPr/gridBefore", 0)
    for cell in _children(row, "tc"):
        merge = cell.find(f"{W}tcPr/{W}vMerge")
        goes_on = merge is not None and merge.get(f"{W}val", "continue") == "continue"
        inside = [words(part).strip() for part in cell.iter(f"{W}p")]
        text = "" if goes_on else " ".join(part for part in inside if part)
        line.append((cell, text))
        line.extend([(None, "")] * (_number(cell, "tcPr/gridSpan", 1) - 1))
    return line


def _children(parent: Any, name: str) -> Iterator[Any]:
    """Children of the name, also inside content controls."""
    for child in parent:
        if local(child) == name:
            yield child
        elif local(child) in _CONTAINERS:
            yield from _children(child, name)


def _number(element: Any, path: str, default: int) -> int:
    found = element.find("/".join(f"{W}{step}" for step in path.split("/")))
    value = "" if found is None else found.get(f"{W}val", "")
    return min(int(value), 100) if value.isdigit() else default


def _notes(document: Any, kind: str, name: str) -> Iterator[Block]:
    """Footnotes or endnotes as "[^1]: text", by the ids that `words()` writes where they stand."""
    for relation in document.part.rels.values():
        if relation.is_external or not relation.reltype.endswith(f"/{kind}"):
            continue
        try:
            root = etree.fromstring(relation.target_part.blob)
        except etree.LxmlError:
            continue  # a damaged part of notes does not cost the document
        for note in root.iter(f"{W}{name}"):
            text = " ".join(filter(None, (words(p).strip() for p in note.iter(f"{W}p"))))
            if text and note.get(f"{W}type") is None:
                prefix = "e" if name == "endnote" else ""
                yield Block("paragraph", f"[^{prefix}{note.get(f'{W}id')}]: {text}")


def _properties(
    document: Any, blocks: list[Block]
) -> tuple[str | None, str | None, str | None, dict[str, Any]]:
    """Title, author, date and further fields; a paragraph of style Title stands for a title."""
    styled = next((b.text for b in blocks if b.kind == "heading" and b.level == 0), None)
    try:
        core = document.core_properties
        title, author = core.title or styled, core.author
        date = core.created if isinstance(core.created, datetime) else core.modified
        fields = {"subject": core.subject, "keywords": core.keywords, "language": core.language}
    except (ValueError, KeyError, AttributeError, etree.LxmlError):
        return styled, None, None, {}
    if author == "python-docx":  # its template's own author and date
        author, date = None, None
    iso = date.date().isoformat() if isinstance(date, datetime) else None
    return title, author or None, iso, {name: value for name, value in fields.items() if value}
