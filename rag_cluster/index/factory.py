"""Which FAISS index for how many vectors: the choices, without FAISS itself."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_cluster.config import Dense

logger = logging.getLogger(__name__)

FLAT_BELOW = 50_000  # vectors; exact search of fewer takes milliseconds
PQ_FROM = 500_000  # vectors; from here on full vectors cost more memory than they are worth
K_FACTOR = 10  # candidates per hit that a refinement looks at
POINTS_PER_LIST = 39  # training vectors that FAISS asks for per inverted list


def choose_factory(count: int, dim: int, config: Dense) -> str:
    """The FAISS factory string for `count` vectors of `dim` dimensions.

    A factory in the configuration is taken as it is, unless there is nothing to index. Otherwise
    Flat, then IVF,Flat, then IVF,PQ (4 bits, fast scan) with SQ8 refinement; about 4 * sqrt(count)
    lists (with PQ 2 * sqrt(count)), as a power of two, but no more than the training sample can
    fill (the log says so).
    """
    if config.factory != "auto" and count:
        return config.factory
    if count < FLAT_BELOW:
        return "Flat"
    training = min(count, config.train_size)
    if count < PQ_FROM:
        return f"IVF{_list_count(4 * np.sqrt(count), training)},Flat"
    # Codes are compared faster than centroids, which are full vectors: fewer and longer lists.
    lists = _list_count(2 * np.sqrt(count), training)
    # Eight dimensions for each sub-quantiser; where 8 does not divide them, the next that does.
    subquantisers = max(m for m in range(1, max(dim // 8, 1) + 1) if dim % m == 0)
    return f"IVF{lists},PQ{subquantisers}x4fs,Refine(SQ8)"


def _list_count(about: float, training: int) -> int:
    wanted = 2 ** round(np.log2(about))
    affordable = max(training // POINTS_PER_LIST, 1)
    lists = min(wanted, 2 ** int(np.log2(affordable)))
    if lists < wanted:
        logger.warning(
            "%d training vectors fill %d inverted lists, not %d: raise index.dense.train_size",
            training, lists, wanted,
        )  # fmt: skip
    return int(lists)


def needs_training(factory: str) -> bool:
    """Whether an index of this factory string learns from a sample; true where it is not known."""
    return re.fullmatch(r"Flat|HNSW\d+(,Flat)?", factory) is None


def training_rows(count: int, config: Dense) -> NDArray[np.int64]:
    """Sorted rows, at most `train_size` of `count`, drawn without replacement with the seed."""
    if count <= config.train_size:
        return np.arange(count)
    generator = np.random.default_rng(config.seed)
    return np.sort(generator.choice(count, config.train_size, replace=False))


def default_nprobe(lists: int) -> int:
    """The inverted lists that a query visits unless the configuration or the build says else."""
    return min(lists, max(16, lists // 256))


def default_k_factor(config: Dense) -> int:
    """The candidates per hit that a refinement looks at; 10 unless the configuration says else."""
    return config.k_factor or K_FACTOR


def with_measured(config: Dense, made: Mapping[str, Any]) -> Dense:
    """The configuration, with the manifest's `nprobe` and `k_factor` where it leaves them open.

    `made` is the manifest's section `dense`; that of an older version may have neither.
    """
    names = ("nprobe", "k_factor")
    open_ones = [name for name in names if getattr(config, name) is None]
    return config.model_copy(update={name: made.get(name) for name in open_ones})
