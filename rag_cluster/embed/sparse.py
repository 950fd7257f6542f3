"""A learned sparse vector for each chunk, beside the one that it has: VECTOR -> VECTOR."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_cluster.config import Config
from rag_cluster.embed.columns import refuse
from rag_cluster.embed.dense import texts_of
from rag_cluster.models.sparse import SparseEncoder, SparseVector, load_sparse_encoder
from rag_cluster.work import SPARSE


class SparseEmbedder:
    """The sparse stage: loads its model once, and is then called with one table after another.

    What is encoded is what is indexed: context, header and text. Rows that reuse the vector of an
    equal text reuse its sparse vector too, so nothing is encoded for them. In late chunking all
    rows are encoded: there a vector is reused by the text around it, and knows no context.
    """

    def __init__(
        self, config: Config, threads: int | None = None, encoder: SparseEncoder | None = None
    ) -> None:
        self._encoder = encoder or load_sparse_encoder(config.sparse, threads)
        self._late = config.embed.mode == "late"
        self._fails = config.embed.truncation == "fail"

    def __call__(self, table: pa.Table) -> pa.Table:
        """The table with the columns `terms` and `weights`, null for rows that are not encoded.

        `truncated` counts what one of the two encoders did not read. Raises IngestError for a chunk
        beyond the window of this one where the configuration says so.
        """
        mine = table["searchable"] if self._late else pc.is_valid(table["vector"])
        at = np.flatnonzero(mine.to_numpy())
        texts = texts_of(table.filter(mine))
        different = list(dict.fromkeys(texts))
        found = dict(zip(different, self._encoder.encode(different), strict=True))
        rows: list[SparseVector | None] = [None] * table.num_rows
        for row, text in zip(at, texts, strict=True):
            rows[row] = found[text]
        table = self._counted(table, at, texts)
        for place, field in enumerate(SPARSE):
            column = [None if vector is None else vector[place] for vector in rows]
            table = table.append_column(field, pa.array(column, field.type))
        return table

    def _counted(self, table: pa.Table, rows: NDArray[np.intp], texts: list[str]) -> pa.Table:
        beyond = np.zeros(table.num_rows, dtype=np.int32)
        beyond[rows] = self._encoder.beyond(texts)
        if self._fails and beyond.any():
            refuse(table, beyond, self._encoder.max_tokens)
        counts = np.maximum(beyond, table["truncated"].to_numpy())
        at = table.schema.get_field_index("truncated")
        return table.set_column(at, "truncated", pa.array(counts, pa.int32()))
