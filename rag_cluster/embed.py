"""CHUNK -> VECTOR: a vector for each searchable chunk.

What is encoded is `indexed_text`: the context, the header and the text. Each different text is
encoded once: a chunk whose text has a vector elsewhere is marked `reused` and gets it when its
shard is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_cluster.config import Config
from rag_cluster.errors import IngestError, ModelError
from rag_cluster.hashes import Hashes, Words, as_words, digest
from rag_cluster.models.encoder import load_encoder
from rag_cluster.models.ports import Encoder, Vectors
from rag_cluster.models.tokenizer import load_tokenizer
from rag_cluster.schema import indexed_text, vector_type
from rag_cluster.work import place_hashes

Mask = NDArray[np.bool_]


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
        """The table with `vector`, `truncated`, `text_hash` and `reused` as last columns.

        The vector (list<float>[dim]) is null for rows that are not searchable or are `reused`.
        `truncated` (int32) counts the tokens beyond the encoder's window, which it did not read.
        Raises IngestError for the first such chunk where the configuration says so, and ModelError
        where a vector is not finite.
        """
        searchable = np.array(table.column("searchable").to_pylist(), dtype=bool)
        rows = np.flatnonzero(searchable)
        chunks = table.take(pa.array(rows))
        texts = _texts(chunks)
        hashes = self._named([digest(text) for text in texts], chunks)
        # Boilerplate makes equal chunks: each different text is encoded once.
        different = dict(zip(hashes, texts, strict=True))
        mine = self._mine(different, digest(*chunks["chunk_id"].to_pylist()))
        place = {key: i for i, key in enumerate(mine)}
        which = np.array([place.get(key, -1) for key in hashes], dtype=np.intp)
        reused = np.zeros(table.num_rows, dtype=bool)
        reused[rows] = which < 0
        encoded, at = rows[which >= 0], which[which >= 0]
        beyond = np.zeros(table.num_rows, dtype=np.int32)
        beyond[encoded] = self._beyond(list(mine.values()))[at]
        if self._config.truncation == "fail" and beyond.any():
            self._refuse(table, beyond)
        vectors = np.zeros((table.num_rows, self._encoder.dim), dtype=np.float32)
        if mine:
            vectors[encoded] = self._encoder.encode(list(mine.values()), "passage")[at]
        self._check_finite(table, vectors)
        named = np.full(table.num_rows, None, dtype=object)
        named[rows] = hashes
        added = {
            "vector": vector_column(vectors, searchable & ~reused),
            "truncated": pa.array(beyond, type=pa.int32()),
            "text_hash": pa.array(named, type=pa.binary(16)),
            "reused": pa.array(reused, type=pa.bool_()),
        }
        for name, column in added.items():
            table = table.append_column(name, column)
        return table

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

    def _check_finite(self, table: pa.Table, vectors: Vectors) -> None:
        if not np.isfinite(vectors).all():
            row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            raise ModelError(
                f"{self._config.model!r} gave a vector that is not finite for {_name(table, row)}"
            )

    def _beyond(self, texts: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        counts = self._tokenizer.count([self._config.passage_prefix + text for text in texts])
        window = self._encoder.max_tokens - self._tokenizer.special_tokens
        return np.array([max(0, count - window) for count in counts], dtype=np.int32)

    def _refuse(self, table: pa.Table, beyond: np.ndarray[tuple[int], np.dtype[np.int32]]) -> None:
        row = int(np.flatnonzero(beyond)[0])
        raise IngestError(
            f"embed: {_name(table, row)} has {beyond[row]} tokens beyond the encoder's window of "
            f"{self._encoder.max_tokens} ({np.count_nonzero(beyond)} chunks of this batch do): "
            "lower chunk.size, or set embed.truncation to report"
        )


def vector_column(vectors: Vectors, valid: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> pa.Array:
    """float32 [rows, dim] as a fixed-size list column, null where `valid` is false."""
    values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    kind = vector_type(vectors.shape[1])
    return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=pa.array(~valid))


def _texts(table: pa.Table) -> list[str]:
    columns = (table.column(name).to_pylist() for name in ("context", "header", "text"))
    return [indexed_text(c or "", h or "", t or "") for c, h, t in zip(*columns, strict=True)]


def _name(table: pa.Table, row: int) -> str:
    values = table.slice(row, 1).select(["chunk_id", "uri", "start", "end"]).to_pylist()[0]
    return f"chunk {values['chunk_id']} of {values['uri']} [{values['start']}:{values['end']}]"
