"""The best break there is: paragraph, line, sentence, word."""

from __future__ import annotations

from rag_cluster.chunk.body import body_pieces
from rag_cluster.chunk.document import Document, Piece
from rag_cluster.chunk.pack import Rules
from rag_cluster.config import Chunk


def recursive(document: Document, settings: Chunk) -> list[Piece]:
    """Chunks that end at a paragraph's end, else a line's, a sentence's, a word's.

    Headings begin a paragraph, but a chunk may reach over them. Tables are their own chunks.
    """
    return body_pieces(document, 0, len(document.text), recursive_rules(document, settings))


def recursive_rules(document: Document, settings: Chunk) -> Rules:
    """How full a chunk must be to end at a break of each level.

    A paragraph's or a line's end is taken where it leaves a chunk at least half full; a word's only
    where no sentence ends behind the first `min_size` tokens.
    """
    breaks = document.breaks
    return Rules(
        size=settings.size,
        overlap=settings.overlap,
        min_size=settings.min_size,
        levels=(
            (breaks.paragraphs, 0.5),
            (breaks.lines, 0.5),
            (breaks.sentences, min(0.5, settings.min_size / settings.size)),
            (breaks.words, 0.5),
            (breaks.tokens, 0.0),
        ),
        starts=(breaks.sentences, breaks.words, breaks.tokens),
    )
