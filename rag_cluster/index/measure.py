"""Measuring the dense index of a version that was just written, shard by shard.

What runs as a task on a cluster is `exact_shard`; how tasks are run is told by the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rag_cluster.config import Dense
from rag_cluster.index import recall
from rag_cluster.index.recall import Vectors
from rag_cluster.index.sharded import DenseShards
from rag_cluster.index.topk import Hits, Rows
from rag_cluster.storage.cache import local_copy
from rag_cluster.storage.files import shard_name

_BLOCK = 16_384  # rows in memory at once

Exact = tuple[Hits, float]


def exact_shard(path: Path, queries: Vectors, config: Dense) -> Exact:
    """`recall.exact_hits` over the vectors of a shard's Parquet file."""
    return recall.exact_hits(read_blocks(path), queries, config)


def measure_index(
    folder: Path,
    counts: Sequence[int],
    factory: str,
    config: Dense,
    exact: Callable[[Sequence[Path], Vectors], Sequence[Exact]],
) -> dict[str, Any]:
    """The manifest's section `dense` of the version in `folder`, with `counts` rows in its shards.

    `exact(paths, queries)` gives `exact_shard` of each path. One pass over all vectors, and none
    where the index is exact itself.
    """
    if factory == "Flat":
        return recall.unmeasured(factory, "the index is exact")
    if not config.recall_queries:
        return recall.unmeasured(factory, "index.dense.recall_queries is 0")
    own = recall.query_rows(sum(counts), config)
    names = [shard_name(shard) for shard in range(len(counts))]
    vectors = [folder / "vectors" / f"{name}.parquet" for name in names]
    ends = np.cumsum([0, *counts])
    parts = [
        read_rows(path, own[(own >= low) & (own < high)] - low)
        for path, low, high in zip(vectors, ends, ends[1:], strict=False)
    ]
    queries = np.concatenate(parts)
    wanted = recall.truth(queries, own, exact(vectors, queries), counts)
    indexes = [local_copy(folder / "dense" / f"{name}.faiss") for name in names]
    return recall.measured(lambda c: DenseShards.open(indexes, c), wanted, config, factory)


def read_blocks(path: Path) -> Iterator[Vectors]:
    """The vectors of a shard's Parquet file in order, in blocks float32 [any, dim]."""
    with path.open("rb") as file:
        for batch in pq.ParquetFile(file).iter_batches(_BLOCK, columns=["vector"]):
            yield _flat(batch.column("vector"))


def read_rows(path: Path, rows: Rows) -> Vectors:
    """Some vectors float32 [len(rows), dim] of a shard's Parquet file; `rows` rise."""
    with path.open("rb") as file:
        dim = pq.ParquetFile(file).schema_arrow.field("vector").type.list_size
    parts = [np.empty((0, dim), np.float32)]
    start = 0
    for block in read_blocks(path) if len(rows) else ():
        parts.append(block[rows[(rows >= start) & (rows < start + len(block))] - start])
        start += len(block)
    return np.concatenate(parts)


def _flat(column: pa.FixedSizeListArray) -> Vectors:
    flat = column.flatten().to_numpy(zero_copy_only=False)
    vectors: Vectors = flat.astype(np.float32, copy=False).reshape(-1, column.type.list_size)
    return vectors
