"""Which FAISS index for how many vectors: the choices, without FAISS itself."""

from __future__ import annotations

import logging
import re

import numpy as np
from numpy.typing import NDArray

from rag_cluster.config import Dense

logger = logging.getLogger(__name__)

FLAT_BELOW = 50_000  # vectors; exact search of fewer takes milliseconds
PQ_FROM = 500_000  # vectors; from here on full vectors cost more memory than they are worth
POINTS_PER_LIST = 39  # training vectors that FAISS asks for per inverted list


def choose_factory(count: int, dim: int, config: Dense) -> str:
    """The FAISS factory string for `count` vectors of `dim` dimensions.

    A factory in the configuration is taken as it is, unless there is nothing to index. Otherwise
    Flat, then IVF,Flat, then IVF,PQ (4 bits, fast scan) with SQ8 refinement; about 4 * sqrt(count)
    lists, as a power of two, but no more than the training sample can fill (the log says so).
    """
    if config.factory != "auto" and count:
        return config.factory
    if count < FLAT_BELOW:
        return "Flat"
    lists = _list_count(count, min(count, config.train_size))
    if count < PQ_FROM:
        return f"IVF{lists},Flat"
    # Eight dimensions for each sub-quantiser; where 8 does not divide them, the next that does.
    subquantisers = max(m for m in range(1, max(dim // 8, 1) + 1) if dim % m == 0)
    return f"IVF{lists},PQ{subquantisers}x4fs,Refine(SQ8)"


def _list_count(count: int, training: int) -> int:
    wanted = 2 ** round(np.log2(4 * np.sqrt(count)))
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
    """The inverted lists that a query visits unless the configuration says otherwise."""
    return min(lists, max(16, lists // 64))
