"""A vector for each chunk from its own text: CHUNK -> VECTOR.

What is encoded is `indexed_text`: the context, the header and the text. Each different text is
encoded once: a chunk whose text has a vector elsewhere is marked `reused` and gets it when its
shard is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from rag_cluster.config import Config
from rag_cluster.embed.columns import Counts, Encoded, Mask, searchable_rows, with_columns
from rag_cluster.hashes import Hashes, Words, as_words, digest
from rag_cluster.models.encoder import load_encoder
from rag_cluster.models.ports import Encoder
from rag_cluster.models.tokenizer import load_tokenizer
from rag_cluster.schema import indexed_text
from rag_cluster.work import place_hashes


class Moved(Protocol):
    """The texts that were encoded for chunks, by the places (`work.place_hashes`) of these."""

    def find(self, places: Words) -> tuple[Mask, Words]:
        """Whether each place is known, and the hash of its text; uint64 [n, 2] both ways."""


# Hashes uint64 [n, 2] and the batch's name to bool [n]; the same batch may ask again.
Claim = Callable[[Words, bytes], Mask]


class Embedder:
    """The embed stage: loads its encoder once, and is then called with one table after another.

    `threads` are the CPU threads of the encoder, and `encoder` is what to use in place of the
    configuration's own. Texts whose hashes are in `known` have a vector already, and so have chunks
    of `moved` files; `claim` tells of others which of them this batch is the first to ask for.
    """

    def __init__(
        self,
        config: Config,
        threads: int | None = None,
        encoder: Encoder | None = None,
        *,
        known: Hashes | None = None,
        moved: Moved | None = None,
        claim: Claim | None = None,
    ) -> None:
        self._config = config.embed
        self._encoder = encoder or load_encoder(config.embed, threads)
        self._tokenizer = load_tokenizer(config.embed.model, config.embed.revision)
        self._known = known
        self._moved = moved
        self._claim = claim

    def __call__(self, table: pa.Table) -> pa.Table:
        """The table with the columns of `with_columns`. Raises as that does."""
        rows = searchable_rows(table)
        chunks = table.take(pa.array(rows))
        texts = texts_of(chunks)
        hashes = self._named([digest(text) for text in texts], chunks)
        # Boilerplate makes equal chunks: each different text is encoded once.
        different = dict(zip(hashes, texts, strict=True))
        mine = self._mine(different, digest(*chunks["chunk_id"].to_pylist()))
        place = {key: i for i, key in enumerate(mine)}
        vectors = np.zeros((0, self._encoder.dim), dtype=np.float32)
        if mine:
            vectors = self._encoder.encode(list(mine.values()), "passage")
        made = Encoded(
            rows,
            hashes,
            np.array([place.get(key, -1) for key in hashes], dtype=np.intp),
            vectors,
            self._beyond(list(mine.values())),
        )
        return with_columns(table, made, self._config, self._encoder.max_tokens)

    def _named(self, hashes: list[bytes], chunks: pa.Table) -> list[bytes]:
        """The hash of the text whose vector each chunk gets: its own, or that of a moved chunk."""
        if self._moved is None:
            return hashes
        held, before = self._moved.find(as_words(place_hashes(chunks)))
        if self._known is not None:
            held &= ~self._known.holds(as_words(hashes))
        return [
            words.tobytes() if moved else own
            for own, moved, words in zip(hashes, held, before, strict=True)
        ]

    def _mine(self, different: dict[bytes, str], batch: bytes) -> dict[bytes, str]:
        """Those of the texts (by hash) that have no vector yet and that no other worker makes."""
        keys = list(different)
        words = as_words(keys)
        wanted = np.ones(len(keys), dtype=bool)
        if self._known is not None:
            wanted &= ~self._known.holds(words)
        if self._claim is not None and wanted.any():
            wanted[wanted] = self._claim(words[wanted], batch)
        return {key: different[key] for key, mine in zip(keys, wanted, strict=True) if mine}

    def _beyond(self, texts: Sequence[str]) -> Counts:
        counts = self._tokenizer.count([self._config.passage_prefix + text for text in texts])
        window = self._encoder.max_tokens - self._tokenizer.special_tokens
        return np.array([max(0, count - window) for count in counts], dtype=np.int32)


def texts_of(table: pa.Table) -> list[str]:
    """What is indexed of each row of CHUNK."""
    columns = (table.column(name).to_pylist() for name in ("context", "header", "text"))
    return [indexed_text(c or "", h or "", t or "") for c, h, t in zip(*columns, strict=True)]
