"""How much of what exact search finds the dense index finds, and raising its settings until enough.

The queries are vectors of the collection itself, drawn with the seed, and a query's own row is left
out of both answers: it is a free hit that would raise recall@10 by up to a tenth. Adding noise to
the vectors instead would need a guess at how far questions lie from passages, and that guess would
decide the figure. Real questions are less like passages than passages are like one another, so an
index may find somewhat less for them than is measured here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_cluster.config import Dense
from rag_cluster.index.sharded import DenseShards
from rag_cluster.index.topk import NO_ROW, Hits, Rows, merge_topk, no_hits, order_hits

logger = logging.getLogger(__name__)

Vectors = NDArray[np.float32]

K = 10
# Exact hits beyond k that are kept: whatever ties with the k-th is as good an answer.
TIES = 40
TOLERANCE = 1e-6  # of scores of unit vectors that are equal but for rounding
MOST_K_FACTOR = 160
LEAST_GAIN = 0.002  # of recall, for twice the work


@dataclass(frozen=True)
class Truth:
    """Queries float32 [n, dim], the row of each, and the rows that exact search gives for each.

    `hits` are (float32 [n, K + TIES], int64 [n, K + TIES]) without the queries' own rows; `seconds`
    are those of one thread that exact search took for all queries together.
    """

    queries: Vectors
    own: Rows
    hits: Hits
    seconds: float


@dataclass(frozen=True)
class Measured:
    """Settings, the recall@10 that they gave, and milliseconds per query, one at a time."""

    nprobe: int | None
    k_factor: int | None
    recall: float
    ms: float


def query_rows(count: int, config: Dense) -> Rows:
    """Sorted rows, at most `recall_queries` of `count`, drawn without replacement."""
    generator = np.random.default_rng([config.seed, 1])  # not the rows of the training sample
    return np.sort(generator.choice(count, min(count, config.recall_queries), replace=False))


def exact_hits(blocks: Iterable[Vectors], queries: Vectors, config: Dense) -> tuple[Hits, float]:
    """The best K + TIES + 1 rows of one shard by exact scores, and the seconds of searching.

    `blocks` are the shard's vectors in order, each float32 [any, dim]; only one is in memory.
    """
    width = K + TIES + 1
    hits = no_hits(len(queries), width)
    first, seconds = 0, 0.0
    for block in blocks:
        if not len(block):
            continue
        start = time.perf_counter()
        scores = queries @ block.T
        if config.metric == "l2":
            scores = 2 * scores - (block * block).sum(axis=1)
            scores -= (queries * queries).sum(axis=1)[:, np.newaxis]
        kept = min(width, len(block))
        rows = np.argpartition(-scores, kept - 1, axis=1)[:, :kept].astype(np.int64)
        part = (np.take_along_axis(scores, rows, axis=1), rows)
        hits = merge_topk([hits, part], [0, first], width)
        first += len(block)
        seconds += time.perf_counter() - start
    return hits, seconds


def truth(
    queries: Vectors, own: Rows, parts: Sequence[tuple[Hits, float]], counts: Sequence[int]
) -> Truth:
    """The shards' exact answers as one; `counts` are their rows, `own` rows over all of them."""
    offsets = np.cumsum([0, *counts])[:-1].tolist()
    scores, rows = merge_topk([hits for hits, _ in parts], offsets, K + TIES + 1)
    rows = np.where(rows == own[:, np.newaxis], NO_ROW, rows)
    hits = order_hits(scores, rows, K + TIES)
    return Truth(queries, own, hits, sum(seconds for _, seconds in parts))


def recall_of(found: Rows, wanted: Truth) -> float:
    """Mean over queries of the share of the best K that was found; `found` is int64 [n, any].

    A row that ties with the K-th exact hit counts as one of the best K.
    """
    shares = []
    for line, own, scores, rows in zip(found, wanted.own, *wanted.hits, strict=True):
        hits = line[(line != own) & (line != NO_ROW)][:K]
        present = rows != NO_ROW
        best = min(K, int(present.sum()))
        if best:
            good = rows[present & (scores >= scores[best - 1] - TOLERANCE)]
            shares.append(min(best, int(np.isin(hits, good).sum())) / best)
    return float(np.mean(shares)) if shares else 1.0


def measure(shards: DenseShards, wanted: Truth) -> Measured:
    """Asks the shards for the queries, one at a time."""
    shards.search(wanted.queries[:1], K + 1)  # the first query reads the file's head
    start = time.perf_counter()
    found = [shards.search(query[np.newaxis], K + 1)[1] for query in wanted.queries]
    ms = (time.perf_counter() - start) / len(found) * 1000
    recall = recall_of(np.concatenate(found), wanted)
    return Measured(shards.probes, shards.k_factor, round(recall, 4), round(ms, 3))


def tune(
    opened: Callable[[Dense], DenseShards], lists: int, wanted: Truth, config: Dense
) -> tuple[Measured, list[Measured]]:
    """The cheapest settings tried that reach `min_recall`, or else the best; and all that were.

    `nprobe` is doubled first, up to `lists`, then `k_factor`; each as long as that finds more. What
    the configuration sets stays as it is.
    """
    best = measure(opened(config), wanted)
    tried = [best]
    limits = {"nprobe": lists, "k_factor": MOST_K_FACTOR}
    names = [n for n in limits if getattr(config, n) is None and getattr(best, n) is not None]
    gained = True
    while gained and best.recall < config.min_recall:
        gained = False
        for name in names:
            while best.recall < config.min_recall and getattr(best, name) < limits[name]:
                settings = {"nprobe": best.nprobe, "k_factor": best.k_factor}
                settings[name] = min(limits[name], 2 * getattr(best, name))
                trial = measure(opened(config.model_copy(update=settings)), wanted)
                tried.append(trial)
                if trial.recall < best.recall + LEAST_GAIN:
                    break
                best, gained = trial, True
    return best, tried


def measured(
    opened: Callable[[Dense], DenseShards], wanted: Truth, config: Dense, factory: str
) -> dict[str, Any]:
    """The manifest's section `dense`: the settings to search with, and what was measured.

    The log says where settings were raised, and where `min_recall` was not reached all the same.
    """
    lists = opened(config).list_count
    best, tried = tune(opened, lists, wanted, config)
    reached = best.recall >= config.min_recall
    figures: dict[str, Any] = {
        "measured": True,
        "recall@10": best.recall,
        "min_recall": config.min_recall,
        "reached": reached,
        "queries": len(wanted.queries),
        "ms_per_query": best.ms,
        "exact_ms_per_query": round(wanted.seconds / len(wanted.queries) * 1000, 3),
        "tried": [asdict(trial) for trial in tried],
    }
    said = f"recall@10 {best.recall:.3f} with nprobe {best.nprobe} and k_factor {best.k_factor}"
    if not reached:
        figures["warning"] = (
            f"the dense index {factory} has {said}, below index.dense.min_recall "
            f"{config.min_recall}: choose an index.dense.factory with more bits per vector or "
            f"Refine(Flat), leave index.dense.nprobe and k_factor open, or lower min_recall"
        )
        logger.warning("%s", figures["warning"])
    elif best != tried[0]:
        logger.warning("raised for index.dense.min_recall: %s", said)
    return {"factory": factory, "nprobe": best.nprobe, "k_factor": best.k_factor, "recall": figures}


def unmeasured(factory: str, reason: str) -> dict[str, Any]:
    """The manifest's section `dense` where nothing was measured, and why."""
    return {
        "factory": factory,
        "nprobe": None,
        "k_factor": None,
        "recall": {"measured": False, "reason": reason},
    }
