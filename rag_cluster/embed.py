"""CHUNK -> VECTOR: a vector for each searchable chunk.

The columns `vector` and `truncated` are added. What is encoded is `indexed_text`: the context, the
header and the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from rag_cluster.config import Config
from rag_cluster.errors import IngestError, ModelError
from rag_cluster.models.encoder import load_encoder
from rag_cluster.models.ports import Encoder, Vectors
from rag_cluster.models.tokenizer import load_tokenizer
from rag_cluster.schema import indexed_text, vector_type


class Embedder:
    """The embed stage: loads its encoder once, and is then called with one table after another.

    `threads` are the CPU threads of the encoder. `encoder` is what to use in place of the
    configuration's own.
    """

    def __init__(
        self, config: Config, threads: int | None = None, encoder: Encoder | None = None
    ) -> None:
        self._config = config.embed
        self._encoder = encoder or load_encoder(config.embed, threads)
        self._tokenizer = load_tokenizer(config.embed.model, config.embed.revision)

    def __call__(self, table: pa.Table) -> pa.Table:
        """The table with `vector` (list<float>[dim]) and `truncated` (int32) as last columns.

        Rows that are not searchable have a null vector. `truncated` counts the tokens beyond the
        encoder's window, which it did not read. Raises IngestError for the first such chunk where
        the configuration says so, and ModelError where a vector is not finite.
        """
        searchable = np.array(table.column("searchable").to_pylist(), dtype=bool)
        rows = np.flatnonzero(searchable)
        texts = _texts(table.take(rows) if len(rows) else table.slice(0, 0))
        # Boilerplate makes equal chunks: each different text is encoded once.
        different = list(dict.fromkeys(texts))
        place = {text: i for i, text in enumerate(different)}
        which = np.array([place[text] for text in texts], dtype=np.intp)
        beyond = np.zeros(table.num_rows, dtype=np.int32)
        beyond[rows] = self._beyond(different)[which]
        if self._config.truncation == "fail" and beyond.any():
            self._refuse(table, beyond)
        vectors = np.zeros((table.num_rows, self._encoder.dim), dtype=np.float32)
        vectors[rows] = self._encoder.encode(different, "passage")[which]
        if not np.isfinite(vectors).all():
            row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
            raise ModelError(
                f"{self._config.model!r} gave a vector that is not finite for {_name(table, row)}"
            )
        table = table.append_column("vector", vector_column(vectors, searchable))
        return table.append_column("truncated", pa.array(beyond, type=pa.int32()))

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
