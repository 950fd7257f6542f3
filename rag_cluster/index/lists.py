"""The inverted lists of a shard, asked with a coarse quantisation that all shards share.

FAISS compares a query with every list's centroid in each index that it searches. Shards have the
same centroids, so here that is done once, and the lists are then visited shard by shard.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from rag_cluster.index.topk import NO_ROW, Hits, Mask, Rows, Scores

Vectors = NDArray[np.float32]


class Assigned(NamedTuple):
    """The lists to visit for each query: int64 [n, probes], and how far their centroids are."""

    lists: NDArray[np.int64]
    distances: NDArray[np.float32]

    def of(self, queries: slice | Mask) -> Assigned:
        """That of some of the queries."""
        return Assigned(self.lists[queries], self.distances[queries])


class InvertedLists:
    """The IVF part of an index, and the refinement vectors beside it where it has them."""

    def __init__(self, faiss: ModuleType, index: Any, ivf: Any) -> None:
        self._faiss = faiss
        self._owner = index  # the others are parts of it and do not keep it alive
        self._ivf = ivf
        self._quantizer = faiss.downcast_index(ivf.quantizer)
        self.refined = isinstance(index, faiss.IndexRefine)
        self._refinement = faiss.downcast_index(index.refine_index) if self.refined else None
        # Made once for each number of probes: that takes as long as visiting some lists.
        self._unfiltered = functools.cache(lambda probes: faiss.SearchParametersIVF(nprobe=probes))
        self._sign = 1 if index.metric_type == faiss.METRIC_INNER_PRODUCT else -1

    @classmethod
    def of(cls, faiss: ModuleType, index: Any) -> InvertedLists | None:
        """The lists of an index; None where it has none, or turns vectors before it uses them."""
        ivf = faiss.try_extract_index_ivf(index)
        inside = index.base_index if isinstance(index, faiss.IndexRefine) else index
        turned = isinstance(faiss.downcast_index(inside), faiss.IndexPreTransform)
        return None if ivf is None or turned else cls(faiss, index, ivf)

    @property
    def count(self) -> int:
        """The number of lists."""
        return int(self._ivf.nlist)

    def assign(self, queries: Vectors, probes: int) -> Assigned:
        """The `probes` lists nearest to each query; `queries` is float32 [n, dim]."""
        distances, lists = self._quantizer.search(queries, probes)
        return Assigned(lists, distances)

    def candidates(
        self, queries: Vectors, assigned: Assigned, count: int, mask: Mask | None
    ) -> Hits:
        """The best `count` rows of these lists for each query, in FAISS's order.

        (float32 [n, count], int64 [n, count]), row -1 where there are no more; higher is better.
        Scores are those of the codes, to be refined where `refined`.
        """
        pointer = self._faiss.swig_ptr
        probes = assigned.lists.shape[1]
        parameters = self._unfiltered(probes)
        if mask is not None:
            bits = np.packbits(mask, bitorder="little")
            selector = self._faiss.IDSelectorBitmap(bits)
            parameters = self._faiss.SearchParametersIVF(nprobe=probes, sel=selector)
        scores = np.empty((len(queries), count), dtype=np.float32)
        rows = np.empty((len(queries), count), dtype=np.int64)
        # The method as C++ has it: the one for NumPy takes no parameters, thus no filter.
        self._ivf.search_preassigned_c(
            len(queries), pointer(queries), count, pointer(assigned.lists),
            pointer(assigned.distances), pointer(scores), pointer(rows),
            False, parameters,  # noqa: FBT003 (store_pairs; C++ takes no names)
        )  # fmt: skip
        if self._sign < 0:
            np.negative(scores, out=scores)
        scores[rows == NO_ROW] = -np.inf
        return scores, rows

    def decode(self, rows: Rows, into: Vectors) -> None:
        """Writes the refinement vectors of the rows int64 [n] to `into`, float32 [n, dim]."""
        assert self._refinement is not None
        self._refinement.reconstruct_batch(rows, into)

    def compare(self, queries: Vectors, vectors: Vectors) -> Scores:
        """The score float32 [n] of each query float32 [n, dim] and the vector beside it."""
        if self._sign == 1:
            return cast("Scores", np.einsum("ij,ij->i", queries, vectors))
        apart = queries - vectors
        return cast("Scores", -np.einsum("ij,ij->i", apart, apart))
