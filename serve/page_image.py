"""A page of a PDF as an image, drawn by a child process that a broken file may crash."""

from __future__ import annotations

import threading

from rag_cluster.errors import SourceError
from rag_cluster.parse.isolate import Isolated
from rag_cluster.parse.parsed import ParseError
from rag_cluster.parse.sources import open_bytes, path_of
from rag_cluster.schema import content_hash

TIMEOUT_S = 20.0
MEMORY_MB = 2048

_drawing = threading.Lock()
_child = Isolated(TIMEOUT_S, MEMORY_MB)


def page_image(uri: str, wanted_hash: str, page: int, width: int) -> bytes | None:
    """Page `page` (from 1) as a PNG that is `width` pixels wide; None where it has no such page.

    Raises SourceError where the file cannot be read, is not the one that was ingested any more, or
    cannot be drawn.
    """
    try:
        with open_bytes(path_of(uri)) as file:
            data = file.read()
    except OSError as error:
        raise SourceError(f"the source cannot be read: {error.strerror or error}") from None
    if content_hash(data) != wanted_hash:
        raise SourceError("the source was changed after it was ingested: ingest it again")
    with _drawing:
        try:
            return _child.call(draw, data, page, width)
        except ParseError as error:
            raise SourceError(f"the page cannot be drawn: {error}") from None


def draw(data: bytes, page: int, width: int) -> bytes | None:
    """The page as a PNG."""
    import pymupdf

    with pymupdf.open(stream=data, filetype="pdf") as document:
        if not 1 <= page <= document.page_count:
            return None
        drawn = document[page - 1]
        scale = width / max(1.0, drawn.rect.width)
        png: bytes = drawn.get_pixmap(matrix=pymupdf.Matrix(scale, scale), alpha=False).tobytes(
            "png"
        )
        return png
