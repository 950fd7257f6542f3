"""An element tree to blocks: of HTML, and of the tree that trafilatura makes of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rag_cluster.parse.blocks import Block, table_block

_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_LISTS = {"ul", "ol", "menu", "dl", "list"}
_ITEMS = {"li", "dd", "dt", "item"}
_TABLES = {"table"}
_ROWS = {"tr", "row"}
_CELLS = {"td", "th", "cell"}
_BREAKS = {"br", "lb"}
_BLOCKS = (
    _HEADINGS
    | _LISTS
    | _ITEMS
    | _TABLES
    | _ROWS
    | _CELLS
    | {"head", "p", "div", "section", "article", "main", "body", "header", "footer", "aside", "nav"}
    | {"pre", "blockquote", "quote", "hr", "figure", "figcaption", "form", "fieldset", "address"}
    | {"details", "summary", "center", "caption", "thead", "tbody", "tfoot", "dialog", "legend"}
)
_SILENT = {"script", "style", "noscript", "template", "svg", "iframe", "object", "canvas"}
_SILENT |= {"select", "button", "input", "textarea", "audio", "video", "colgroup", "graphic", "img"}
_AROUND = {"nav", "footer", "aside"}
_SPACE = re.compile(r"[ \t\r\f\n]+")
_LONGEST_CELL = 1500
_WIDEST_SPAN = 50


def blocks_of(root: Any, *, around: bool = True) -> Iterator[Block]:
    """The blocks under an lxml element; `around=False` leaves out navigation, footers, asides."""
    yield from _walk(root, -1, "-", around)


def _walk(element: Any, depth: int, marker: str, around: bool) -> Iterator[Block]:  # noqa: FBT001
    """Text between block elements is gathered into one block.

    `depth` is that of the list, -1 outside. `marker` stands before the first text of a list item;
    what else the item holds is indented by as much.
    """
    inline = [element.text or ""]
    number = _first_number(element)
    for child in element:
        name = _name(child)
        if name in _BLOCKS or (name == "code" and _is_code_block(child)):
            if _squeeze("".join(inline)):
                yield from _flush(inline, depth, marker)
                marker = " " * len(marker)
            if around or not _is_around(child, name):
                own = marker
                if name in _ITEMS:
                    own = "-" if number is None or name in {"dt", "dd"} else f"{number}."
                    number = None if number is None else number + 1
                yield from _block(child, name, depth, own, around)
                marker = marker if name in _ITEMS else " " * len(marker)
            inline = [child.tail or ""]
        else:
            _inline(child, name, inline)
            inline.append(child.tail or "")
    yield from _flush(inline, depth, marker)


def _block(child: Any, name: str, depth: int, marker: str, around: bool) -> Iterator[Block]:  # noqa: FBT001
    if _is_hidden(child):
        return
    if name in _HEADINGS or name == "head":
        tag = name if name in _HEADINGS else (child.get("rend") or "h2")
        level = int(tag[1]) if tag[1:].isdigit() else 2
        yield Block("heading", _text(child), level=level)
    elif name in {"pre", "code"}:
        yield Block("code", _text(child, keep_space=True))
    elif name in _TABLES:
        yield from _table(child, depth, around)
    elif name in _LISTS:
        yield from _walk(child, depth + 1, "-", around)
    else:
        yield from _walk(child, depth, marker, around)


def _flush(inline: list[str], depth: int, marker: str) -> Iterator[Block]:
    text = _squeeze("".join(inline))
    inline.clear()
    if not text:
        return
    if depth < 0:
        yield Block("paragraph", text)
    else:
        yield Block("item", text, level=depth, marker=marker)


def _table(table: Any, depth: int, around: bool) -> Iterator[Block]:  # noqa: FBT001
    for caption in table.iterchildren("caption"):
        yield Block("paragraph", _squeeze(_text(caption)))
    rows = [row for row in table.iter(*_ROWS) if _owner(row) is table]
    cells = [[cell for cell in row if _name(cell) in _CELLS] for row in rows]
    if _is_layout(cells):
        for row in cells:
            for cell in row:
                yield from _walk(cell, depth, "-", around)
        return
    block = table_block(_grid(cells))
    if block is not None:
        yield block


def _owner(row: Any) -> Any:
    return next(row.iterancestors("table"), None)


def _is_layout(cells: list[list[Any]]) -> bool:
    """A table that places things on the page, or holds one column, is no table of data."""
    if max((len(row) for row in cells), default=0) < 2:
        return True
    for cell in (cell for row in cells for cell in row):
        if next(cell.iter("table", *_HEADINGS), None) is not None:
            return True
        if len(cell.xpath("string()")) > _LONGEST_CELL:
            return True
    return False


def _grid(cells: list[list[Any]]) -> list[list[str]]:
    """Texts by row and column; what spans several stands in the first of them."""
    taken: dict[tuple[int, int], str] = {}
    for row, line in enumerate(cells):
        column = 0
        for cell in line:
            while (row, column) in taken:
                column += 1
            text = _squeeze(_text(cell, blocks=True))
            tall, wide = _span(cell, "rowspan", "rows"), _span(cell, "colspan", "span", "cols")
            for down in range(min(tall, len(cells) - row)):
                for right in range(wide):
                    taken[row + down, column + right] = "" if down or right else text
            column += wide
    width = 1 + max((column for _, column in taken), default=0)
    return [[taken.get((row, column), "") for column in range(width)] for row in range(len(cells))]


def _span(cell: Any, *names: str) -> int:
    value = next((cell.get(name) for name in names if cell.get(name)), "1")
    return min(max(int(value), 1), _WIDEST_SPAN) if value.strip().isdigit() else 1


def _text(element: Any, *, keep_space: bool = False, blocks: bool = False) -> str:
    parts = [element.text or ""]
    for child in element:
        name = _name(child)
        separate = blocks and name in _BLOCKS
        parts.append(" " if separate else "")
        _inline(child, name, parts, keep_space=keep_space, blocks=blocks)
        parts.append(" " if separate else "")
        parts.append(child.tail or "")
    text = "".join(parts)
    return text.replace("\v", "\n") if keep_space else text


def _inline(
    child: Any, name: str, parts: list[str], *, keep_space: bool = False, blocks: bool = False
) -> None:
    if name in _BREAKS:
        parts.append("\v")  # a newline that squeezing keeps
    elif name == "math" or (child.get("type") or "").startswith("math/tex"):
        parts.append(_formula(child))
    elif name and name not in _SILENT and not _is_hidden(child):
        text = _text(child, keep_space=keep_space, blocks=blocks)
        raised = name == "sup" or child.get("rend") == "#sup"
        parts.append(f"^{text}" if raised and text.strip().isdigit() and len(child) == 0 else text)


def _formula(element: Any) -> str:
    """LaTeX where the page has it (in MathML's annotation, or for MathJax), else its letters."""
    notes = element.xpath(".//*[local-name()='annotation' and contains(@encoding, 'tex')]")
    source = " ".join((notes[0] if notes else element).xpath("string()").split())
    return f"${source}$" if source and (notes or _name(element) == "script") else source


def _squeeze(text: str) -> str:
    lines = _SPACE.sub(" ", text).split("\v")
    return "\n".join(line.strip() for line in lines).strip()


def _name(element: Any) -> str:
    """The tag without its namespace; "" for comments and processing instructions."""
    tag = element.tag
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def _first_number(element: Any) -> int | None:
    if _name(element) == "ol":
        start = element.get("start", "1")
        return int(start) if start.strip().lstrip("-").isdigit() else 1
    return 1 if _name(element) == "list" and element.get("rend") == "ol" else None


def _is_code_block(element: Any) -> bool:
    return "\n" in element.xpath("string()").strip() or len(element.xpath(".//lb")) > 1


def _is_hidden(element: Any) -> bool:
    style = (element.get("style") or "").replace(" ", "").lower()
    return element.get("hidden") is not None or "display:none" in style


def _is_around(element: Any, name: str) -> bool:
    return name in _AROUND or element.get("role") in {"navigation", "banner", "contentinfo"}
