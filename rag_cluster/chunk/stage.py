"""The stage: DOCUMENT -> CHUNK."""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rag_cluster.chunk.document import Document, Piece, prepare
from rag_cluster.chunk.fixed import fixed
from rag_cluster.chunk.recursive import recursive
from rag_cluster.chunk.section import section
from rag_cluster.chunk.semantic import Links, find_links, semantic
from rag_cluster.chunk.sentence import sentence
from rag_cluster.config import Chunk, Config, fingerprint
from rag_cluster.fields import read_fields
from rag_cluster.models.encoder import load_encoder, revision_of
from rag_cluster.models.ports import Encoder
from rag_cluster.models.tokenizer import Tokenizer, load_tokenizer
from rag_cluster.schema import DOCUMENT, chunk_id, chunk_schema, rows_to_table

Row = dict[str, Any]


def chunker_fingerprint(config: Config) -> str:
    """What names the chunker in chunk ids: its settings, and the model whose tokens it counts.

    Where that model's vectors decide as well, what makes them is a part of the name.
    """
    embed = config.embed
    names = [embed.model, embed.revision or ""]
    if config.chunk.strategy == "semantic":
        names += [revision_of(embed), embed.passage_prefix, f"{embed.dim} {embed.max_tokens}"]
    return fingerprint(config.chunk, *names)


class Chunker:
    """Cuts documents into chunks, each a span of its document's text.

    Documents whose status is not "ok" give none. `tokens` is each chunk's own count. A chunk is
    larger than `chunk.size` only if it is one formula or one table row, which are never cut. Of the
    strategy `proposition` these are the chunks that are rewritten: see `chunk.rewrite`.

    A strategy that compares vectors loads the configuration's encoder, which computes with
    `threads` threads, unless it is given one.
    """

    takes = DOCUMENT

    def __init__(
        self, config: Config, threads: int | None = None, encoder: Encoder | None = None
    ) -> None:
        self._config = config
        self._fingerprint = chunker_fingerprint(config)
        self._tokenizer = load_tokenizer(config.embed.model, config.embed.revision)
        self._threads = threads
        self._given = encoder
        self.gives = chunk_schema(config.metadata.fields)

    def __call__(self, table: pa.Table) -> pa.Table:
        """The chunks of a table of DOCUMENT, in the documents' order and reading order."""
        rows: list[Row] = []
        for document in table.to_pylist():
            if document["status"] == "ok":
                rows.extend(self._chunks(document))
        return rows_to_table(rows, self.gives)

    @functools.cached_property
    def _encoder(self) -> Encoder | None:
        """Loaded with the first document, so that a chunker may travel to a worker before."""
        if self._given is None and self._config.chunk.strategy == "semantic":
            return load_encoder(self._config.embed, self._threads)
        return self._given

    def _chunks(self, row: Mapping[str, Any]) -> list[Row]:
        document, pieces, tokens = cut(row, self._config.chunk, self._tokenizer, self._encoder)
        metadata = read_fields(row["metadata"], self._config.metadata.fields)
        pages = _Pages(row["pages"] or [])
        sections = _Sections(document)
        ids: dict[int, str] = {}
        rows: list[Row] = []
        for ordinal, (piece, count) in enumerate(zip(pieces, tokens, strict=True)):
            name = chunk_id(row["doc_id"], piece.start, piece.end, piece.kind, self._fingerprint)
            ids[id(piece)] = name
            page_first, page_last = pages.of(piece)
            path, role = sections.of(piece)
            rows.append(
                {
                    "chunk_id": name,
                    "doc_id": row["doc_id"],
                    "uri": row["uri"],
                    "content_hash": row["content_hash"],
                    "title": row["title"],
                    "ordinal": ordinal,
                    "siblings": len(pieces),
                    "kind": piece.kind,
                    "role": role,
                    "searchable": piece.searchable,
                    "parent_id": None if piece.parent is None else ids[id(piece.parent)],
                    "start": piece.start,
                    "end": piece.end,
                    "page_first": page_first,
                    "page_last": page_last,
                    "section_path": path,
                    "header": piece.header,
                    "text": document.text[piece.start : piece.end],
                    "context": "",
                    "tokens": count,
                    **metadata,
                }
            )
        return rows


def cut(
    row: Mapping[str, Any], settings: Chunk, tokenizer: Tokenizer, encoder: Encoder | None = None
) -> tuple[Document, list[Piece], list[int]]:
    """A DOCUMENT row, its pieces in order, and the tokens of each piece's own text.

    Pieces are measured within the document. A tokenizer that reads the first word of a text unlike
    the same word further on may count more of a piece alone: then the document is cut once more by
    so much less, and what still exceeds the size is halved.
    """
    keep_whole = settings.strategy != "fixed"
    document = prepare(row, tokenizer, keep_whole=keep_whole, size=settings.size)
    links = None
    if settings.strategy == "semantic":
        assert encoder is not None
        links = find_links(document, settings.semantic, encoder)
    pieces = _pieces(document, settings, links)
    tokens = _count(document, pieces, tokenizer)
    excess = max(
        (_excess(p, n, settings.size) for p, n in zip(pieces, tokens, strict=True)), default=0
    )
    if excess > 0:
        smaller = settings.size - min(excess, settings.size // 8)
        pieces = _pieces(document, settings.model_copy(update={"size": smaller}), links)
        pieces = [part for p in pieces for part in _halves(document, p, settings.size, tokenizer)]
        tokens = _count(document, pieces, tokenizer)
    return document, pieces, tokens


def _pieces(document: Document, settings: Chunk, links: Links | None) -> list[Piece]:
    match settings.strategy:
        case "fixed":
            return fixed(document, settings)
        case "sentence":
            return sentence(document, settings)
        case "recursive":
            return recursive(document, settings)
        case "section" | "proposition":
            return section(document, settings)
        case "semantic":
            assert links is not None
            return semantic(document, settings, links)


def _count(document: Document, pieces: list[Piece], tokenizer: Tokenizer) -> list[int]:
    return tokenizer.count([document.text[piece.start : piece.end] for piece in pieces])


def _excess(piece: Piece, tokens: int, size: int) -> int:
    if piece.whole or not piece.searchable:
        return 0
    return tokens + piece.header_tokens - size


def _halves(document: Document, piece: Piece, size: int, tokenizer: Tokenizer) -> list[Piece]:
    """The piece, or as many parts of it as it takes for each to keep to the size."""
    (tokens,) = _count(document, [piece], tokenizer)
    middle = _middle(document, piece)
    if _excess(piece, tokens, size) <= 0 or piece.kind == "table" or middle is None:
        return [piece]
    spans = (document.trim(piece.start, middle), document.trim(middle, piece.end))
    parts = [replace(piece, start=start, end=end) for start, end in spans if start < end]
    return [part for half in parts for part in _halves(document, half, size, tokenizer)]


def _middle(document: Document, piece: Piece) -> int | None:
    """The last break before the piece's middle, if there is one inside the piece."""
    for level in (document.breaks.words, document.breaks.tokens):
        index = bisect_right(level, (piece.start + piece.end) // 2) - 1
        if index >= 0 and level[index] > piece.start:
            return level[index]
    return None


class _Pages:
    def __init__(self, pages: list[Mapping[str, Any]]) -> None:
        self._numbers = [page["number"] for page in pages]
        self._starts = [page["start"] for page in pages]

    def of(self, piece: Piece) -> tuple[int | None, int | None]:
        """The first and the last page of a piece; None without pages."""
        if not self._starts:
            return None, None
        return self._at(piece.start), self._at(piece.end - 1)

    def _at(self, position: int) -> int:
        number: int = self._numbers[max(0, bisect_right(self._starts, position) - 1)]
        return number


class _Sections:
    def __init__(self, document: Document) -> None:
        self._sections = document.sections
        self._starts = [here.start for here in document.sections]

    def of(self, piece: Piece) -> tuple[str, str]:
        """Path and role.

        Of a piece that reaches over sections: the first one's path, and "body" if any of them is
        body, so that no body text is left out of retrieval.
        """
        first = max(0, bisect_right(self._starts, piece.start) - 1)
        last = max(0, bisect_right(self._starts, piece.end - 1) - 1)
        roles = {here.role for here in self._sections[first : last + 1]}
        own = self._sections[first]
        return own.path, "body" if "body" in roles else own.role
