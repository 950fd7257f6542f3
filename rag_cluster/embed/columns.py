"""The columns that a chunk gets with its vector, and what is wrong with a vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_cluster.config import Embed
from rag_cluster.errors import IngestError, ModelError
from rag_cluster.models.ports import Vectors
from rag_cluster.schema import vector_type

Mask = NDArray[np.bool_]
Counts = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Encoded:
    """What was encoded for the searchable rows of a table of CHUNK.

    `rows` int [n] are these rows, `keys` names what each was made of, and `at` int [n] says which
    of the `vectors` float32 [m, dim] each gets: -1 where it has one elsewhere. `beyond` int32 [m]
    counts the tokens that the encoder did not read.
    """

    rows: NDArray[np.intp]
    keys: list[bytes]
    at: NDArray[np.intp]
    vectors: Vectors
    beyond: Counts


def with_columns(table: pa.Table, made: Encoded, config: Embed, max_tokens: int) -> pa.Table:
    """The table with `vector`, `truncated`, `text_hash` and `reused` as last columns.

    The vector (list<float>[dim]) is null for rows that are not searchable or are `reused`.
    `truncated` (int32) counts the tokens beyond the encoder's window, which it did not read.
    Raises IngestError for the first such chunk where the configuration says so, and ModelError
    where a vector is not finite.
    """
    own = made.at >= 0
    encoded, at = made.rows[own], made.at[own]
    beyond = np.zeros(table.num_rows, dtype=np.int32)
    beyond[encoded] = made.beyond[at]
    if config.truncation == "fail" and beyond.any():
        refuse(table, beyond, max_tokens)
    vectors = np.zeros((table.num_rows, made.vectors.shape[1]), dtype=np.float32)
    vectors[encoded] = made.vectors[at]
    _check_finite(table, vectors, config.model)
    has_vector = np.zeros(table.num_rows, dtype=bool)
    has_vector[encoded] = True
    reused = np.zeros(table.num_rows, dtype=bool)
    reused[made.rows[~own]] = True
    named = np.full(table.num_rows, None, dtype=object)
    named[made.rows] = made.keys
    added = {
        "vector": vector_column(vectors, has_vector),
        "truncated": pa.array(beyond, type=pa.int32()),
        "text_hash": pa.array(named, type=pa.binary(16)),
        "reused": pa.array(reused, type=pa.bool_()),
    }
    for name, column in added.items():
        table = table.append_column(name, column)
    return table


def vector_column(vectors: Vectors, valid: Mask) -> pa.Array:
    """float32 [rows, dim] as a fixed-size list column, null where `valid` is false."""
    values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).reshape(-1))
    kind = vector_type(vectors.shape[1])
    return pa.FixedSizeListArray.from_arrays(values, type=kind, mask=pa.array(~valid))


def searchable_rows(table: pa.Table) -> NDArray[np.intp]:
    """The rows that get a vector."""
    return np.flatnonzero(np.array(table.column("searchable").to_pylist(), dtype=bool))


def _check_finite(table: pa.Table, vectors: Vectors, model: str) -> None:
    if not np.isfinite(vectors).all():
        row = int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])
        raise ModelError(f"{model!r} gave a vector that is not finite for {_name(table, row)}")


def refuse(table: pa.Table, beyond: Counts, max_tokens: int) -> None:
    """Raises IngestError for the first row with tokens beyond (int32 [rows]) the window."""
    row = int(np.flatnonzero(beyond)[0])
    raise IngestError(
        f"embed: {_name(table, row)} has {beyond[row]} tokens beyond the encoder's window of "
        f"{max_tokens} ({np.count_nonzero(beyond)} chunks of this batch do): "
        "lower chunk.size, or set embed.truncation to report"
    )


def _name(table: pa.Table, row: int) -> str:
    values = table.slice(row, 1).select(["chunk_id", "uri", "start", "end"]).to_pylist()[0]
    return f"chunk {values['chunk_id']} of {values['uri']} [{values['start']}:{values['end']}]"
