"""Training a FAISS index: seeded, and on the GPUs of the machine where FAISS was built for them.

The functions take the faiss module as an argument, so that one module alone imports it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def train_index(faiss: ModuleType, index: Any, sample: Vectors, seed: int) -> None:
    """Trains an empty index in place; the same seed and sample make the same index.

    Clustering into inverted lists takes nearly all the time; with GPUs the nearest centroids are
    found there, all else on the CPU. Raises RuntimeError where FAISS refuses the sample.
    """
    lists = faiss.try_extract_index_ivf(index)
    if lists is not None:
        lists.cp.seed = seed
    if index.is_trained:
        return
    nearest = _on_gpus(faiss, lists)
    if nearest is None:
        index.train(sample)
        return
    lists.clustering_index = nearest
    try:
        index.train(sample)
    finally:
        # The index does not own it, and copies of the index would point to what is gone.
        lists.clustering_index = None


def for_gpus(faiss: ModuleType) -> bool:
    """Whether FAISS was built for GPUs; the CPU's build has their functions' names alone."""
    return hasattr(faiss, "StandardGpuResources") and hasattr(faiss, "get_num_gpus")


def _on_gpus(faiss: ModuleType, lists: Any) -> Any:
    """An empty flat index over all GPUs; None without lists, or without GPUs that FAISS can use."""
    if lists is None or not for_gpus(faiss) or faiss.get_num_gpus() < 1:
        return None
    return faiss.index_cpu_to_all_gpus(faiss.IndexFlat(lists.d, lists.metric_type))
