"""Shards of learned sparse vectors: the weight of each term in each chunk, column by column.

The matrix chunks x terms by columns is the one that BM25 shards have (see `lexical`), in the same
three arrays. A chunk's score is its inner product with the query's vector. It is added up term by
term, in rising order of the terms, so that k shards score exactly as one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_cluster.errors import CollectionError, IngestError
from rag_cluster.index.topk import Hits, Mask, best_of, check_k, no_hits, searchable_mask
from rag_cluster.models.sparse import SparseVector
from rag_cluster.storage.files import read_shard
from rag_cluster.work import SPARSE

ABOUT = "about.json"


def build_shard(terms: pa.ChunkedArray, weights: pa.ChunkedArray) -> SparseShard:
    """The shard of some chunks: columns list<int32> and list<float32>, a row each."""
    lengths = pc.list_value_length(terms).to_numpy()
    columns = pc.list_flatten(terms).to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(terms), dtype=np.int32), lengths)
    order = np.argsort(columns, kind="stable")  # and so by row within a column
    counts = np.bincount(columns)
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    data = pc.list_flatten(weights).to_numpy().astype(np.float32)[order]
    return SparseShard(len(terms), data, rows[order], indptr)


def read_vectors(path: Path) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """The columns of terms and weights of a version's file of vectors."""
    table = read_shard(path, columns=SPARSE.names)
    return table["terms"], table["weights"]


def with_vectors(chunks: pa.Table, path: Path) -> pa.Table:
    """The searchable chunks of a shard with these columns, which are in their order."""
    chunks = chunks.filter(chunks["searchable"])
    for name, column in zip(SPARSE.names, read_vectors(path), strict=True):
        chunks = chunks.append_column(name, column)
    return chunks


class SparseShard:
    """A shard that is searched. May be used by several threads at once."""

    def __init__(
        self,
        size: int,
        data: NDArray[np.float32],
        indices: NDArray[np.int32],
        indptr: NDArray[np.int64],
    ) -> None:
        """Of `size` chunks: term t has `data[a:b]` in rows `indices[a:b]`, a, b = indptr[t:t+2]."""
        self.size = size
        self._data, self._indices, self._indptr = data, indices, indptr

    def save(self, folder: Path) -> None:
        """Writes arrays and JSON, no pickles. Raises IngestError when the disk refuses."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / "data.npy", self._data, allow_pickle=False)
            np.save(folder / "indices.npy", self._indices, allow_pickle=False)
            np.save(folder / "indptr.npy", self._indptr, allow_pickle=False)
            (folder / ABOUT).write_text(json.dumps({"chunks": self.size}), encoding="utf-8")
        except OSError as error:
            raise IngestError(f"cannot write the sparse index {folder}: {error}") from None

    @classmethod
    def open(cls, folder: Path) -> SparseShard:
        """What `save` wrote, memory-mapped. Raises CollectionError when it is absent or damaged."""
        try:
            about: dict[str, Any] = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
            # The same mapped memory as plain arrays: slices of np.memmap are slow to make.
            data, indices, indptr = (
                np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False))
                for name in ("data", "indices", "indptr")
            )
            size = int(about["chunks"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CollectionError(f"the sparse index {folder} cannot be read: {error}") from None
        return cls(size, data, indices, indptr)

    def search(self, queries: Sequence[SparseVector], k: int, mask: Mask | None = None) -> Hits:
        """The best k rows for each query: (float32 [n, k], int64 [n, k]), -inf and -1 beyond them.

        Only rows that score above 0 are hits. `mask` is bool [rows] and may go on for rows that are
        not searchable; ties are ordered by row.
        """
        check_k(k)
        if mask is not None:
            mask = searchable_mask(mask, self.size)
        scores, rows = no_hits(len(queries), k)
        for line, query in enumerate(queries):
            found = self._scores(query)
            if mask is not None:
                found[~mask] = 0
            scores[line], rows[line] = best_of(found, k)
        return scores, rows

    def _scores(self, query: SparseVector) -> NDArray[np.float32]:
        scores = np.zeros(self.size, np.float32)
        known = query.terms < len(self._indptr) - 1
        for term, weight in zip(query.terms[known], query.weights[known], strict=True):
            low, high = self._indptr[term], self._indptr[term + 1]
            scores[self._indices[low:high]] += weight * self._data[low:high]
        return scores
