"""Windows of tokens."""

from __future__ import annotations

from rag_cluster.chunk.document import Document, Piece
from rag_cluster.chunk.pack import Rules, pack
from rag_cluster.config import Chunk


def fixed(document: Document, settings: Chunk) -> list[Piece]:
    """Windows of `size` tokens that share `overlap`, whatever the text is: tables and formulas too.

    A window ends at a word, or within one where a single word fills half of it.
    """
    breaks = document.breaks
    rules = Rules(
        size=settings.size,
        overlap=settings.overlap,
        min_size=0,
        levels=((breaks.words, 0.5), (breaks.tokens, 0.0)),
        starts=(breaks.words, breaks.tokens),
    )
    return pack(document, 0, len(document.text), rules)
