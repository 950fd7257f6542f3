"""Builds a version from what the pipeline stored: gather each shard, train once, index each shard.

Rounds of Ray tasks, one task per shard each. The first signs documents, so that the driver finds
near-duplicates. The next sorts a shard's rows and takes in what stays of the published version;
then the driver adds up document frequencies and trains the dense index on a sample; the last writes
the FAISS and BM25 files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import ray

from rag_cluster import generated
from rag_cluster.config import Config
from rag_cluster.errors import RagClusterError
from rag_cluster.hashes import Hashes, Words
from rag_cluster.index import dense, gather, lexical, measure, near, reuse, sparse
from rag_cluster.index.documents import Job
from rag_cluster.index.factory import choose_factory, needs_training, training_rows
from rag_cluster.index.gather import texts_of
from rag_cluster.index.manifest import make_manifest
from rag_cluster.models.ports import Vectors
from rag_cluster.storage import Writer, file_entries, read_table, shard_name, write_file

if TYPE_CHECKING:
    from rag_cluster.index.elastic_client import Target


class Reporter(Protocol):
    """Where the build says what it did."""

    def add(self, step: str, rows_in: int, rows_out: int, failed: int, seconds: float) -> None:
        """Counts work that was done."""


def build(writer: Writer, job: Job, encoder: dict[str, Any], reporter: Reporter) -> dict[str, Any]:
    """Writes all files of the new version and returns its manifest."""
    config = job.config
    job = _with_duplicates(job, reporter)
    gather_task = ray.remote(num_cpus=_cpus())(gather.gather_shard)
    shared = ray.put(job)
    start = time.monotonic()
    gathered: list[gather.Gathered] = ray.get(
        [gather_task.remote(shard, shared) for shard in range(config.index.shards)]
    )
    chunks = sum(g.chunks for g in gathered)
    reporter.add("gather", chunks, chunks, 0, time.monotonic() - start)
    start = time.monotonic()
    searchable = sum(g.searchable for g in gathered)
    factory = choose_factory(searchable, encoder["dim"], config.index.dense)
    counts = [g.searchable for g in gathered]
    trained = _trained(writer.folder, factory, encoder["dim"], counts, config)
    statistics = ray.put(lexical.merge([g.statistics for g in gathered if g.statistics]))
    index = ray.remote(num_cpus=_cpus())(index_shard)
    with served_index(writer, config, searchable) as served:
        files: list[dict[str, Any]] = ray.get(
            [
                index.remote(shard, writer.folder, trained, statistics, config, served)
                for shard in range(config.index.shards)
            ]
        )
    reporter.add("index", searchable, searchable, 0, time.monotonic() - start)
    manifest = make_manifest(writer, config, encoder, factory, gathered, files)
    manifest["dense"] = _measure(writer.folder, factory, counts, config, reporter)
    manifest["near_duplicates"] = near.summary(job)
    manifest["lexical"] |= served.to_manifest() if served is not None else {}
    return manifest


def _with_duplicates(job: Job, reporter: Reporter) -> Job:
    """The job with the near-duplicate documents, where they are looked for."""
    config = job.config.duplicates
    if config.near == "none":
        return job
    start = time.monotonic()
    task = ray.remote(num_cpus=_cpus())(near.sign_shard)
    shared = ray.put(job)
    found: list[near.Signed] = ray.get(
        [task.remote(shard, shared) for shard in range(job.config.index.shards)]
    )
    duplicates = near.find_duplicates(found, job.folder, config)
    signed = sum(part.new for part in found)
    reporter.add("duplicates", signed, duplicates.num_rows, 0, time.monotonic() - start)
    return dataclasses.replace(job, duplicates=duplicates)


def check(config: Config) -> None:
    """Raises ServiceError where the configuration names a server that does not answer."""
    if config.index.lexical.kind == "elasticsearch":
        from rag_cluster.index import elastic

        elastic.check(config)


def publish(writer: Writer, manifest: dict[str, Any], config: Config) -> None:
    """Publishes the version, and then points the alias of its index on a server to it."""
    writer.publish(manifest)
    if config.index.lexical.kind == "elasticsearch":
        from rag_cluster.index import elastic
        from rag_cluster.index.elastic_client import located

        try:
            elastic.publish(located(manifest, config.index.lexical.elastic), config)
        except RagClusterError as error:
            raise type(error)(
                f"{writer.version} is published, but its alias was not moved (tried again by "
                f"'rag-cluster rollback {writer.version} --collection {writer.path}'): "
                f"{error}"
            ) from None


def locate_vectors(parts: Sequence[Path], known: Sequence[Path]) -> tuple[reuse.Places, Words]:
    """Where the vectors are that the chunks of the parts reuse, and the hashes of which none is.

    They are looked for in the parts themselves, and in the other files of `known`.
    """
    wanted = np.unique(
        np.concatenate([reuse.find_wanted([]), *_each(reuse.find_wanted, parts)]), axis=0
    )
    if not len(wanted):
        return reuse.Places.none(), wanted
    paths = [*parts, *(path for path in known if path not in set(parts))]
    shared = ray.put(wanted)
    places = reuse.Places.merged(_each(reuse.locate, paths, shared))
    return places, wanted[~Hashes(places.words).holds(wanted)]


def _each(function: Callable[..., Any], paths: Sequence[Path], *arguments: Any) -> list[Any]:
    """The function of a hundred files at a time, as Ray tasks."""
    task = ray.remote(num_cpus=_cpus())(function)
    found: list[Any] = ray.get(
        [task.remote(paths[i : i + 100], *arguments) for i in range(0, len(paths), 100)]
    )
    return found


@contextlib.contextmanager
def served_index(writer: Writer, config: Config, chunks: int) -> Iterator[Target | None]:
    """The index of the version on a server, where the configuration has one.

    It is empty at the beginning, complete (so many chunks) at the end, and gone after an error.
    """
    if config.index.lexical.kind != "elasticsearch":
        yield None
        return
    from rag_cluster.index import elastic

    target = elastic.target_of(config.index.lexical, writer.path, writer.version)
    elastic.create(target, config)
    try:
        yield target
        elastic.finish(target, config, chunks)
    except BaseException:
        with contextlib.suppress(RagClusterError):  # the first error is the one to tell
            elastic.delete(target, config)
        raise


def index_shard(
    shard: int,
    folder: Path,
    trained: bytes,
    statistics: Any,
    config: Config,
    served: Target | None = None,
) -> dict[str, Any]:
    """Writes one shard's dense and lexical index; returns the sizes and checksums of its files.

    Where the lexical index is on a server, the shard's chunks are loaded to `served`.
    """
    name = shard_name(shard)
    vectors = _vectors(folder, shard)
    dense_path = folder / "dense" / f"{name}.faiss"
    index = dense.build_shard(dense.from_bytes(trained), vectors)
    write_file(dense_path, lambda path: dense.write(index, path))
    paths = [folder / kind / f"{name}.parquet" for kind in ("documents", "chunks", "vectors")]
    kinds = (near.FOLDER, gather.LEFT_OUT, generated.FOLDER)
    optional = [folder / kind / f"{name}.parquet" for kind in kinds]
    paths += [dense_path, *(path for path in optional if path.exists())]
    if served is not None:
        from rag_cluster.index import elastic

        chunks = read_table(folder / "chunks" / f"{name}.parquet")
        if config.sparse.model is not None:
            chunks = sparse.with_vectors(chunks, folder / "vectors" / f"{name}.parquet")
        elastic.load_shard(served, chunks, config)
    elif config.sparse.model is not None:
        sparse_path = folder / "sparse" / name
        built = sparse.build_shard(*sparse.read_vectors(folder / "vectors" / f"{name}.parquet"))
        write_file(sparse_path, built.save)
        paths.append(sparse_path)
    if config.index.lexical.kind == "bm25s":
        chunks = read_table(folder / "chunks" / f"{name}.parquet")
        texts = texts_of(chunks.filter(chunks.column("searchable")))
        lexical_path = folder / "lexical" / name
        bm25 = lexical.build_shard(texts, statistics, config.index.lexical)
        write_file(lexical_path, bm25.save)
        paths.append(lexical_path)
    return file_entries(folder, paths)


def _trained(folder: Path, factory: str, dim: int, counts: list[int], config: Config) -> Any:
    """The reference of what `_train` returns: trained here, or on a GPU of the cluster."""
    if dense.built_for_gpus() and ray.cluster_resources().get("GPU", 0) >= 1:
        task = ray.remote(num_cpus=_cpus(), num_gpus=1)(_train)
        return task.remote(folder, factory, dim, counts, config)
    return ray.put(_train(folder, factory, dim, counts, config))


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


def _measure(
    folder: Path, factory: str, counts: list[int], config: Config, reporter: Reporter
) -> dict[str, Any]:
    """The manifest's section `dense`: exact answers by one task per shard, merged here."""
    start = time.monotonic()
    dense_config = config.index.dense
    task = ray.remote(num_cpus=_cpus())(measure.exact_shard)

    def exact(paths: Sequence[Path], queries: Vectors) -> list[measure.Exact]:
        shared = ray.put(queries)
        found: list[measure.Exact] = ray.get([task.remote(p, shared, dense_config) for p in paths])
        return found

    section = measure.measure_index(folder, counts, factory, dense_config, exact)
    if section["recall"]["measured"]:
        queries = section["recall"]["queries"]
        reporter.add("measure", queries, queries, 0, time.monotonic() - start)
    return section


def _vectors(folder: Path, shard: int) -> Vectors:
    column = read_table(
        folder / "vectors" / f"{shard_name(shard)}.parquet", columns=["vector"]
    ).column("vector")
    dim = column.type.list_size
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    vectors: Vectors = flat.astype(np.float32, copy=False).reshape(-1, dim)
    return vectors


def _cpus() -> float:
    return min(1.0, float(ray.cluster_resources().get("CPU", 1.0)) / 2)
