"""Chunks that follow the heading tree."""

from __future__ import annotations

from rag_cluster.chunk.body import body_pieces
from rag_cluster.chunk.document import Document, Piece
from rag_cluster.chunk.pack import Rules
from rag_cluster.chunk.recursive import recursive_rules
from rag_cluster.config import Chunk


def section(document: Document, settings: Chunk) -> list[Piece]:
    """A section that fits is one chunk; a large one is a parent and its parts, in order.

    The parent (kind "section", not searchable) spans the whole section; its parts are fragments of
    the text and the tables. No chunk crosses a section. A heading with nothing under it but
    further sections gives no chunk: it stands in the path of each of those.
    """
    rules = recursive_rules(document, settings)
    pieces: list[Piece] = []
    for index in range(len(document.sections)):
        pieces.extend(_section(document, index, rules))
    return pieces


def _section(document: Document, index: int, rules: Rules) -> list[Piece]:
    here = document.sections[index]
    start, end = document.trim(here.start, here.end)
    if start == end or _only_opens_others(document, index):
        return []
    if not document.tables_in(start, end) and document.ruler.count(start, end) <= rules.size:
        return [Piece(start, end, "section")]
    parts = body_pieces(document, start, end, rules, heading_end=here.body)
    if len(parts) == 1:
        (only,) = parts
        only.kind = "table" if only.kind == "table" else "section"
        return parts
    parent = Piece(start, end, "section", searchable=False)
    for part in parts:
        part.parent = parent
    return [parent, *parts]


def _only_opens_others(document: Document, index: int) -> bool:
    here = document.sections[index]
    body_start, body_end = document.trim(here.body, here.end)
    following = document.sections[index + 1 : index + 2]
    return body_start == body_end and bool(following) and following[0].parent == index
