"""A vector for each chunk from the text around it: DOCUMENT -> VECTOR.

Late chunking: the document is encoded first, and the vectors of its tokens are averaged over each
chunk afterwards, so that "it" has been read with what it stands for. M. Günther, I. Mohr, D. J.
Williams, B. Wang and H. Xiao: Late Chunking: Contextual Chunk Embeddings Using Long-Context
Embedding Models (2024, arXiv:2409.04701).

A document beyond the encoder's window is read in windows that overlap. The vector knows the
document's own text and nothing else: contexts, and header rows that are repeated before a part of a
table, are indexed for words but do not enter it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from rag_cluster.config import Config
from rag_cluster.embed.columns import Encoded, searchable_rows, with_columns
from rag_cluster.embed.windows import Span, windows_around
from rag_cluster.errors import ConfigError
from rag_cluster.hashes import Hashes, as_words, digest
from rag_cluster.models.encoder import load_encoder
from rag_cluster.models.ports import Encoder
from rag_cluster.models.tokenizer import load_tokenizer

Passage = tuple[str, Span]  # the text of a window, and a chunk's span of it
DOCUMENT_KEY = ("doc_id", "uri", "content_hash")


def check_late(config: Config, encoder: Encoder) -> None:
    """Raises ModelError or ConfigError where an encoder cannot be used for late chunking."""
    LateEmbedder(config, lambda table: table, encoder=encoder)
    encoder.encode_spans(["a text"], [[(0, 1)]])


class LateEmbedder:
    """Cuts documents into chunks and encodes these in one go, since vectors need the whole text.

    `chunk` makes the CHUNK rows of a table of DOCUMENT. The name of a vector (`text_hash`) is the
    hash of its window's text and of the chunk's span in it: that is all the vector depends on.
    Those in `known` have one already. Raises ModelError for an encoder whose vectors are no means
    of token vectors, ConfigError where no window has room for its overlap.
    """

    def __init__(
        self,
        config: Config,
        chunk: Callable[[pa.Table], pa.Table],
        threads: int | None = None,
        encoder: Encoder | None = None,
        *,
        known: Hashes | None = None,
    ) -> None:
        self._config = config.embed
        self._chunk = chunk
        self._encoder = encoder or load_encoder(config.embed, threads)
        self._tokenizer = load_tokenizer(config.embed.model, config.embed.revision)
        self._known = known
        prefix = self._tokenizer.count([config.embed.passage_prefix])[0]
        self._room = self._encoder.max_tokens - self._tokenizer.special_tokens - prefix
        # By default most chunks lie in a window as a whole, with something on either side.
        most = max(self._room // 4, min(config.chunk.size, self._room // 2))
        asked = config.embed.late_overlap
        self._overlap = most if asked is None else asked
        if self._overlap >= self._room:
            raise ConfigError(
                f"embed.late_overlap is {self._overlap}, but a window has only {self._room} tokens"
            )

    def __call__(self, table: pa.Table) -> pa.Table:
        """The chunks of a table of DOCUMENT, with the columns of `with_columns`.

        Raises as that does.
        """
        chunks = self._chunk(table)
        rows = searchable_rows(chunks)
        passages = self._passages(table, chunks.take(pa.array(rows)))
        keys = [digest("late", window, f"{start}:{end}") for window, (start, end) in passages]
        different = dict(zip(keys, passages, strict=True))
        mine = self._mine(different)
        place = {key: i for i, key in enumerate(mine)}
        made = Encoded(
            rows,
            keys,
            np.array([place.get(key, -1) for key in keys], dtype=np.intp),
            self._vectors(list(mine.values())),
            np.array([self._beyond(*passage) for passage in mine.values()], dtype=np.int32),
        )
        return with_columns(chunks, made, self._config, self._encoder.max_tokens)

    def _passages(self, documents: pa.Table, chunks: pa.Table) -> list[Passage]:
        """Each chunk's window and its span there, in the order of the chunks."""
        texts = dict(zip(_keys(documents), documents["text"].to_pylist(), strict=True))
        passages: list[Passage] = []
        for key, spans in _by_document(chunks):
            text = texts[key] or ""
            windows = windows_around(text, spans, self._tokenizer, self._room, self._overlap)
            passages += [
                (text[a:b], (start - a, end - a))
                for (a, b), (start, end) in zip(windows, spans, strict=True)
            ]
        return passages

    def _mine(self, different: dict[bytes, Passage]) -> dict[bytes, Passage]:
        if self._known is None or not different:
            return different
        held = self._known.holds(as_words(list(different)))
        return {
            key: different[key] for key, known in zip(different, held, strict=True) if not known
        }

    def _vectors(
        self, passages: Sequence[Passage]
    ) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """float32 [len(passages), dim]; each different window is encoded once."""
        vectors = np.zeros((len(passages), self._encoder.dim), dtype=np.float32)
        rows: dict[str, list[int]] = {}
        for row, (window, _) in enumerate(passages):
            rows.setdefault(window, []).append(row)
        spans = [[passages[row][1] for row in here] for here in rows.values()]
        found = self._encoder.encode_spans(list(rows), spans) if rows else []
        for here, those in zip(rows.values(), found, strict=True):
            vectors[here] = those
        return vectors

    def _beyond(self, window: str, span: Span) -> int:
        """Tokens of a chunk that the encoder does not read: only a chunk larger than a window."""
        if span[1] - span[0] < len(window):
            return 0
        return max(0, self._tokenizer.count([window])[0] - self._room)


def _keys(table: pa.Table) -> Iterator[tuple[str, ...]]:
    return zip(*(table[name].to_pylist() for name in DOCUMENT_KEY), strict=True)


def _by_document(chunks: pa.Table) -> Iterator[tuple[tuple[str, ...], list[Span]]]:
    """The spans of the chunks, document by document, in their order."""
    spans = zip(chunks["start"].to_pylist(), chunks["end"].to_pylist(), strict=True)
    for key, rows in groupby(zip(_keys(chunks), spans, strict=True), key=lambda row: row[0]):
        yield key, [span for _, span in rows]
