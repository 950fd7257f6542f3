"""How a FAISS index is asked: the parameters that its kind takes, and with how many threads.

The functions take the faiss module as an argument, so that one module alone imports it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def search_parameters(faiss: Any, index: Any, selector: Any, probes: int, k_factor: float) -> Any:
    """The search parameters of this kind of index, and of those it is built of.

    `selector` is a faiss.IDSelector or None, `probes` the inverted lists to visit, `k_factor` the
    candidates per hit that a refinement looks at.
    """
    index = faiss.downcast_index(index)
    chosen = {"sel": selector} if selector is not None else {}
    if isinstance(index, faiss.IndexRefine):
        base = search_parameters(faiss, index.base_index, selector, probes, k_factor)
        return faiss.IndexRefineSearchParameters(k_factor=k_factor, base_index_params=base)
    if isinstance(index, faiss.IndexPreTransform):
        inner = search_parameters(faiss, index.index, selector, probes, k_factor)
        return faiss.SearchParametersPreTransform(index_params=inner)
    if isinstance(index, faiss.IndexIVF):
        return faiss.SearchParametersIVF(nprobe=probes, **chosen)
    if not chosen:
        return None
    if isinstance(index, faiss.IndexHNSW):
        return faiss.SearchParametersHNSW(**chosen)
    if isinstance(index, faiss.IndexPQ):
        return faiss.SearchParametersPQ(**chosen)
    return faiss.SearchParameters(**chosen)


@contextmanager
def threads_for(faiss: Any, queries: int) -> Iterator[None]:
    """One thread for one query: it takes milliseconds, and other queries want the other cores.

    The number of threads is a property of the calling thread (OpenMP), so others keep theirs.
    """
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1 if queries == 1 else before)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
