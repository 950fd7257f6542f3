"""Dense shards: FAISS indexes whose ids are the rows of the shard's chunk table.

The inverted lists and the quantiser are trained once (`train`); every shard is filled into a copy
of that empty trained index (`build_shard`), so shards give the scores that one index would give.
Files are memory-mapped when opened. This is the one place that imports faiss.

Scores are higher for the better: the inner product, or the squared Euclidean distance negated.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rag_cluster.config import Dense
from rag_cluster.errors import (
    CollectionError,
    ConfigError,
    IngestError,
    MissingExtraError,
    ModelError,
)
from rag_cluster.index.factory import (
    choose_factory,
    default_k_factor,
    default_nprobe,
    needs_training,
    training_rows,
)
from rag_cluster.index.lists import InvertedLists
from rag_cluster.index.probing import search_parameters, threads_for
from rag_cluster.index.topk import (
    NO_ROW,
    Hits,
    Mask,
    Rows,
    check_k,
    no_hits,
    order_hits,
    searchable_mask,
)
from rag_cluster.index.training import for_gpus, train_index

__all__ = [
    "DenseShard", "build_shard", "built_for_gpus", "checked_vectors", "choose_factory",
    "from_bytes", "needs_training", "read", "to_bytes", "train", "training_rows", "write",
]  # fmt: skip

Vectors = NDArray[np.float32]

# A filter that leaves no more rows than this is answered by exact scores of these rows.
EXACT_ROWS = 20_000
# Hits fetched beyond k, so that a tie at the border is decided by row and not by FAISS's heap.
TIE_MARGIN = 8
# FAISS turns to matrix products from 20 queries on, whose last bits depend on the batch.
FLAT_BATCH = 16
_BLOCK = 65_536  # rows whose vectors are in memory at once in an exact search


def train(sample: Vectors, factory: str, config: Dense, *, dim: int) -> Any:
    """An empty trained faiss.Index; `sample` is float32 [n, dim].

    An index that needs no training (`needs_training`) takes an empty sample.

    Raises ConfigError when FAISS does not know the factory string, or cannot train it with so few
    or such vectors; MissingExtraError without faiss.
    """
    faiss = _faiss()
    sample = checked_vectors(sample)
    if sample.shape[1] != dim:
        raise ValueError(f"the sample has {sample.shape[1]} dimensions, not {dim}")
    metric = faiss.METRIC_L2 if config.metric == "l2" else faiss.METRIC_INNER_PRODUCT
    try:
        index = faiss.index_factory(dim, factory, metric)
        train_index(faiss, index, sample, config.seed)
    except RuntimeError as error:
        raise ConfigError(
            f"FAISS cannot make and train index.dense.factory {factory!r} with {len(sample)} "
            f"vectors of {dim} dimensions: {_reason(error)}"
        ) from None
    return index


def built_for_gpus() -> bool:
    """Whether this FAISS can use GPUs, wherever it finds some."""
    return for_gpus(_faiss())


def build_shard(trained: Any, vectors: Vectors) -> Any:
    """A copy of the empty trained index with the vectors added; row i is vectors[i].

    `vectors` is float32 [n, dim], n may be 0. Raises CollectionError when the dimensions differ.
    """
    faiss = _faiss()
    vectors = checked_vectors(vectors)
    _check_dim(trained, vectors)
    index = faiss.clone_index(trained)
    try:
        if len(vectors):
            index.add(vectors)
    except RuntimeError as error:
        raise ConfigError(
            f"this FAISS index takes no rows as ids ({_reason(error)}): choose another "
            f"index.dense.factory"
        ) from None
    return index


def write(index: Any, path: Path) -> None:
    """Writes an index, trained or filled. Raises IngestError when the disk refuses."""
    try:
        _faiss().write_index(index, str(path))
    except RuntimeError as error:
        raise IngestError(f"cannot write the dense index {path}: {_reason(error)}") from None


def read(path: Path) -> Any:
    """The index of a file, memory-mapped. Raises CollectionError when it is absent or damaged."""
    faiss = _faiss()
    if not path.is_file():
        raise CollectionError(f"the dense index {path} is absent: ingest again")
    # The newer flag maps codes and vectors of every kind of index, the older one only the lists.
    flag = getattr(faiss, "IO_FLAG_MMAP_IFC", faiss.IO_FLAG_MMAP)
    try:
        return faiss.read_index(str(path), flag)
    except RuntimeError as error:
        raise CollectionError(
            f"the dense index {path} cannot be read, ingest again: {_reason(error)}"
        ) from None


def to_bytes(index: Any) -> bytes:
    """The index as bytes, to send a trained one to the tasks that fill the shards."""
    return bytes(_faiss().serialize_index(index).tobytes())


def from_bytes(data: bytes) -> Any:
    """The index that `to_bytes` wrote."""
    return _faiss().deserialize_index(np.frombuffer(data, dtype=np.uint8))


class DenseShard:
    """A filled index that is searched. May be used by several threads at once."""

    def __init__(self, index: Any, config: Dense, *, exact_rows: int = EXACT_ROWS) -> None:
        """`config` gives nprobe and k_factor; they may be others than those of the build."""
        self._faiss = _faiss()
        # The downcast object does not own the index, so both are kept.
        self._owner = index
        self._index = self._faiss.downcast_index(index)
        self._lists = self._faiss.try_extract_index_ivf(index)
        self.lists = InvertedLists.of(self._faiss, self._index)
        self._config = config
        self._exact_rows = exact_rows
        self._lock = threading.Lock()
        self._has_direct_map = self._lists is None or self.refined
        self._higher_is_better = index.metric_type == self._faiss.METRIC_INNER_PRODUCT

    @classmethod
    def open(cls, path: Path, config: Dense) -> DenseShard:
        """The shard of a file that `write` made, memory-mapped. Raises CollectionError."""
        return cls(read(path), config)

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self._index.ntotal)

    @property
    def dim(self) -> int:
        """The number of dimensions."""
        return int(self._index.d)

    @property
    def list_count(self) -> int:
        """The number of inverted lists; 0 where the index has none."""
        return int(self._lists.nlist) if self._lists is not None else 0

    @property
    def refined(self) -> bool:
        """Whether better vectors beside the codes decide the order."""
        return isinstance(self._index, self._faiss.IndexRefine)

    def check(self, vectors: Vectors) -> None:
        """Raises CollectionError where the vectors have other dimensions than the index."""
        _check_dim(self._index, vectors)

    def threads(self, queries: int) -> AbstractContextManager[None]:
        """The context in which FAISS takes the threads that so many queries are worth."""
        return threads_for(self._faiss, queries)

    def search(self, queries: Vectors, k: int, mask: Mask | None = None) -> Hits:
        """The best k rows for each query: (float32 [n, k], int64 [n, k]), -inf and -1 beyond them.

        `queries` is float32 [n, dim]; `mask` is bool [rows] and may go on for rows that are not
        searchable. All k are found whenever so many rows are allowed; ties are ordered by row.
        Raises CollectionError for queries of other dimensions, ModelError for NaN in them.
        """
        queries = checked_vectors(queries)
        _check_dim(self._index, queries)
        check_k(k)
        if mask is not None:
            mask = searchable_mask(mask, self.size)
            mask = None if mask.all() else mask
        allowed = self.size if mask is None else int(np.count_nonzero(mask))
        if not allowed or not len(queries):
            return no_hits(len(queries), k)
        with threads_for(self._faiss, len(queries)):
            return self._search(queries, k, mask, allowed)

    def _search(self, queries: Vectors, k: int, mask: Mask | None, allowed: int) -> Hits:
        if self._lists is None:
            hits = self._search_whole(queries, k, mask, allowed)
        elif mask is not None and allowed <= self._exact_rows:
            hits = self._search_rows(queries, k, np.flatnonzero(mask))
        else:
            hits = self._search_lists(queries, k, mask, allowed)
        return self._completed(hits, queries, k, mask, allowed)

    def _search_whole(self, queries: Vectors, k: int, mask: Mask | None, allowed: int) -> Hits:
        try:
            return self._ranked(self._index, queries, k, allowed, self._parameters(mask, 0))
        except RuntimeError:
            if mask is None:
                raise
            # A plain product quantiser, for one, takes no filter.
            return self._search_rows(queries, k, np.flatnonzero(mask))

    def _search_lists(self, queries: Vectors, k: int, mask: Mask | None, allowed: int) -> Hits:
        """Visits more lists when a filter thins them out, and all when k were not found."""
        lists = self._lists.nlist
        probes = self._config.nprobe or default_nprobe(lists)
        probes = min(lists, int(np.ceil(probes * self.size / allowed)))
        hits = self._ranked(self._index, queries, k, allowed, self._parameters(mask, probes))
        short = self._short(hits, k, allowed)
        if short.any() and probes < lists:
            parameters = self._parameters(mask, lists)
            scores, rows = self._ranked(self._index, queries[short], k, allowed, parameters)
            hits[0][short], hits[1][short] = scores, rows
        return hits

    def _completed(
        self, hits: Hits, queries: Vectors, k: int, mask: Mask | None, allowed: int
    ) -> Hits:
        # Graphs and fast scan may still leave some out: then the vectors themselves decide.
        short = self._short(hits, k, allowed)
        if short.any():
            rows = np.arange(self.size) if mask is None else np.flatnonzero(mask)
            hits[0][short], hits[1][short] = self._search_rows(queries[short], k, rows)
        return hits

    @staticmethod
    def _short(hits: Hits, k: int, allowed: int) -> Mask:
        found = np.count_nonzero(hits[1] != NO_ROW, axis=1)
        return cast("Mask", found < min(k, allowed))

    def _search_rows(self, queries: Vectors, k: int, allowed: Rows) -> Hits:
        """Exact scores of the vectors as the index holds them, by a flat index of only these."""
        best: list[Hits] = []
        for start in range(0, len(allowed), _BLOCK):
            rows = allowed[start : start + _BLOCK]
            flat = self._faiss.IndexFlat(self.dim, self._index.metric_type)
            flat.add(self._reconstruct(rows))
            scores, positions = self._ranked(flat, queries, k, len(rows), None)
            best.append((scores, np.where(positions == NO_ROW, NO_ROW, rows[positions])))
        scores = np.concatenate([part for part, _ in best], axis=1)
        return order_hits(scores, np.concatenate([part for _, part in best], axis=1), k)

    def _reconstruct(self, rows: Rows) -> Vectors:
        with self._lock:
            if not self._has_direct_map:
                self._lists.make_direct_map()
                self._has_direct_map = True
        return cast("Vectors", self._index.reconstruct_batch(rows))

    def _ranked(self, index: Any, queries: Vectors, k: int, allowed: int, parameters: Any) -> Hits:
        """FAISS's hits, ordered by score and row; fetches on while the k-th ties with the last."""
        fetch = min(allowed, k + TIE_MARGIN)
        while True:
            scores, rows = self._fetch(index, queries, fetch, parameters)
            ordered = order_hits(scores, rows, fetch)
            border, last = ordered[0][:, min(k, fetch) - 1], ordered[0][:, -1]
            open_tie = (border == last) & (ordered[1][:, -1] != NO_ROW)
            if fetch >= allowed or not open_tie.any():
                return order_hits(*ordered, k)
            fetch = min(allowed, 4 * fetch)

    def _fetch(self, index: Any, queries: Vectors, fetch: int, parameters: Any) -> Hits:
        step = FLAT_BATCH if isinstance(index, self._faiss.IndexFlat) else len(queries)
        parts = [
            index.search(queries[start : start + step], fetch, params=parameters)
            for start in range(0, len(queries), step)
        ]
        scores = np.concatenate([part for part, _ in parts])
        rows = np.concatenate([part for _, part in parts])
        return (scores if self._higher_is_better else -scores), rows

    def _parameters(self, mask: Mask | None, probes: int) -> Any:
        selector = None
        if mask is not None:
            bits = np.packbits(mask, bitorder="little")
            selector = self._faiss.IDSelectorBitmap(bits)
        return search_parameters(
            self._faiss, self._index, selector, probes, float(default_k_factor(self._config))
        )


def checked_vectors(vectors: Vectors) -> Vectors:
    """Contiguous float32 [n, dim]. Raises ModelError for NaN and infinite values."""
    if vectors.ndim != 2:
        raise ValueError(f"vectors have the shape [n, dim], not {list(vectors.shape)}")
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    if not np.isfinite(vectors).all():
        raise ModelError("the encoder gave vectors with NaN or infinite values")
    return vectors


def _check_dim(index: Any, vectors: Vectors) -> None:
    if vectors.shape[1] != index.d:
        raise CollectionError(
            f"the index has {index.d} dimensions and the vectors {vectors.shape[1]}: use the "
            f"model and embed.dim that made the collection, or ingest again"
        )


def _reason(error: RuntimeError) -> str:
    # "Error in <function> at <file>: <condition>: <reason>": the reason is what a user can read.
    return str(error).strip().rsplit("failed: ", 1)[-1]


def _faiss() -> ModuleType:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError(
            "faiss-cpu", "cpu", "The dense index (with a GPU: rag-cluster[gpu])"
        ) from None
    return faiss
