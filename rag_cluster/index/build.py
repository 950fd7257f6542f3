"""Builds a version from what the pipeline stored: gather each shard, train once, index each shard.

Two rounds of Ray tasks, one task per shard each. The first sorts a shard's rows and takes in what
stays of the published version; between the rounds the driver adds up document frequencies and
trains the dense index on a sample; the second writes the FAISS and BM25 files.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow.parquet as pq
import ray

from rag_cluster.config import Config, fingerprint
from rag_cluster.index import dense, gather, lexical
from rag_cluster.index.factory import choose_factory, needs_training, training_rows
from rag_cluster.index.gather import texts_of
from rag_cluster.models.ports import Vectors
from rag_cluster.schema import STATUSES
from rag_cluster.storage import FORMAT, Collection, Writer, file_entries, shard_name

LIBRARIES = ("rag-cluster", "ray", "pyarrow", "pymupdf", "faiss-cpu", "bm25s", "torch",
             "sentence-transformers", "trafilatura")  # fmt: skip


class Reporter(Protocol):
    """Where the build says what it did."""

    def add(self, step: str, rows_in: int, rows_out: int, failed: int, seconds: float) -> None:
        """Counts work that was done."""


def build(
    writer: Writer,
    old: Collection | None,
    sources: frozenset[str],
    config: Config,
    encoder: dict[str, Any],
    reporter: Reporter,
) -> dict[str, Any]:
    """Writes all files of the new version and returns its manifest.

    `sources` are the uris of the files that this run read: what the published version has of them
    is replaced, all else of it stays.
    """
    prints = fingerprints(config)
    stays = old if old is not None and old.manifest["documents_total"] else None
    fits = stays is None or (
        stays.manifest["fingerprints"]["made"] == prints["made"]
        and stays.manifest["encoder"] == encoder
        and stays.shards == config.index.shards
    )
    gather_task = ray.remote(num_cpus=_cpus())(gather.gather_shard)
    read = ray.put(sources)
    start = time.monotonic()
    gathered: list[gather.Gathered] = ray.get(
        [
            gather_task.remote(
                shard, writer.work, writer.folder, None if stays is None else stays.folder,
                files=read, fits=fits, config=config, dim=encoder["dim"],
            )
            for shard in range(config.index.shards)
        ]
    )  # fmt: skip
    chunks = sum(g.chunks for g in gathered)
    reporter.add("gather", chunks, chunks, 0, time.monotonic() - start)
    start = time.monotonic()
    searchable = sum(g.searchable for g in gathered)
    factory = choose_factory(searchable, encoder["dim"], config.index.dense)
    counts = [g.searchable for g in gathered]
    trained = ray.put(_train(writer.folder, factory, encoder["dim"], counts, config))
    statistics = ray.put(lexical.merge([g.statistics for g in gathered if g.statistics]))
    index = ray.remote(num_cpus=_cpus())(index_shard)
    files: list[dict[str, Any]] = ray.get(
        [
            index.remote(shard, writer.folder, trained, statistics, config)
            for shard in range(config.index.shards)
        ]
    )
    reporter.add("index", searchable, searchable, 0, time.monotonic() - start)
    return _manifest(writer, config, encoder, factory, gathered, files)


def fingerprints(config: Config) -> dict[str, str]:
    """Names of the settings that made documents and chunks (`made`), and indexes (`index`)."""
    embed = config.embed.model_dump(mode="json")
    for machine in ("device", "dtype", "batch_size", "truncation"):
        embed.pop(machine, None)
    made = fingerprint(
        config.chunk, config.enrich, config.metadata, *(f"{k}={v}" for k, v in embed.items())
    )
    return {"parse": fingerprint(config.parse), "made": made, "index": fingerprint(config.index)}


def index_shard(
    shard: int, folder: Path, trained: bytes, statistics: Any, config: Config
) -> dict[str, Any]:
    """Writes one shard's dense and lexical index; returns the sizes and checksums of its files."""
    name = shard_name(shard)
    vectors = _vectors(folder, shard)
    dense_path = folder / "dense" / f"{name}.faiss"
    dense_path.parent.mkdir(exist_ok=True)
    dense.write(dense.build_shard(dense.from_bytes(trained), vectors), dense_path)
    paths = [folder / kind / f"{name}.parquet" for kind in ("documents", "chunks", "vectors")]
    paths.append(dense_path)
    if config.index.lexical.kind != "none":
        chunks = pq.read_table(folder / "chunks" / f"{name}.parquet")
        texts = texts_of(chunks.filter(chunks.column("searchable")))
        lexical_path = folder / "lexical" / name
        lexical.build_shard(texts, statistics, config.index.lexical).save(lexical_path)
        paths.append(lexical_path)
    return file_entries(folder, paths)


def _train(folder: Path, factory: str, dim: int, counts: list[int], config: Config) -> bytes:
    """The empty trained index, serialised; a training sample is drawn over all shards alike."""
    sample = np.empty((0, dim), dtype=np.float32)
    if needs_training(factory):
        rows = training_rows(sum(counts), config.index.dense)
        ends = np.cumsum([0, *counts])
        parts = []
        for shard, (low, high) in enumerate(itertools.pairwise(ends)):
            mine = rows[(rows >= low) & (rows < high)] - low
            parts.append(_vectors(folder, shard)[mine])
        sample = np.concatenate(parts)
    return dense.to_bytes(dense.train(sample, factory, config.index.dense, dim=dim))


def _vectors(folder: Path, shard: int) -> Vectors:
    column = pq.read_table(
        folder / "vectors" / f"{shard_name(shard)}.parquet", columns=["vector"]
    ).column("vector")
    dim = column.type.list_size
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    vectors: Vectors = flat.astype(np.float32, copy=False).reshape(-1, dim)
    return vectors


def _cpus() -> float:
    return min(1.0, float(ray.cluster_resources().get("CPU", 1.0)) / 2)


def _manifest(
    writer: Writer,
    config: Config,
    encoder: dict[str, Any],
    factory: str,
    gathered: list[gather.Gathered],
    files: list[dict[str, Any]],
) -> dict[str, Any]:
    documents = sum((g.documents for g in gathered), Counter())
    return {
        "format": FORMAT,
        "version": writer.version,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": config.model_dump(mode="json"),
        "fingerprints": fingerprints(config),
        "encoder": encoder,
        "dense": {"factory": factory},
        "lexical": config.index.lexical.model_dump(mode="json"),
        "documents": {status: documents[status] for status in STATUSES},
        "documents_total": sum(documents.values()),
        "this_run": {s: sum(g.this_run[s] for g in gathered) for s in STATUSES},
        "failures": dict(sum((g.failures for g in gathered), Counter()).most_common()),
        "chunks": sum(g.chunks for g in gathered),
        "searchable": sum(g.searchable for g in gathered),
        "truncated": {
            "chunks": sum(g.truncated_chunks for g in gathered),
            "tokens": sum(g.truncated_tokens for g in gathered),
        },
        "shards": [
            {"documents": sum(g.documents.values()), "chunks": g.chunks,
             "searchable": g.searchable, "files": entry}
            for g, entry in zip(gathered, files, strict=True)
        ],
        "libraries": {name: _version_of(name) for name in LIBRARIES},
    }  # fmt: skip


def _version_of(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None
