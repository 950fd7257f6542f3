"""Whole sentences."""

from __future__ import annotations

from rag_cluster.chunk.body import body_pieces
from rag_cluster.chunk.document import Document, Piece
from rag_cluster.chunk.pack import Rules
from rag_cluster.config import Chunk


def sentence(document: Document, settings: Chunk) -> list[Piece]:
    """As many whole sentences as `size` holds; neighbours share the whole sentences of `overlap`.

    No chunk of less than `min_size` tokens: "Yes." goes with the sentences around it, if need be
    by cutting the next one at a word, as is done to one that is larger than the size. Tables are
    their own chunks.
    """
    breaks = document.breaks
    rules = Rules(
        size=settings.size,
        overlap=settings.overlap,
        min_size=settings.min_size,
        levels=(
            (breaks.sentences, min(0.5, settings.min_size / settings.size)),
            (breaks.words, 0.5),
            (breaks.tokens, 0.0),
        ),
        starts=(breaks.sentences,),
    )
    return body_pieces(document, 0, len(document.text), rules)
