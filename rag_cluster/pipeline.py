"""The batch pipeline: a list of steps, run as one streaming Ray Data plan, then the index.

    FILE -> parse -> keep -> chunk -> enrich -> embed -> store -> (index.build) -> a new version

`keep` and `store` write what passes through them to the version's work folder, by shard; the plan
itself carries only small tables from step to step, so its memory does not grow with the corpus.
"""

from __future__ import annotations

import functools
import itertools
import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import ray
import ray.data

from rag_cluster import cluster
from rag_cluster.chunk.stage import Chunker
from rag_cluster.chunk.window import check_window
from rag_cluster.config import Config
from rag_cluster.embed import Embedder
from rag_cluster.enrich import Enricher
from rag_cluster.errors import ConfigError, IngestError, RagClusterError
from rag_cluster.index import build
from rag_cluster.models.encoder import load_encoder
from rag_cluster.parse.sources import list_files, skipped
from rag_cluster.parse.stage import Parser
from rag_cluster.progress import Progress, Snapshot, Watcher
from rag_cluster.schema import DOCUMENT, FILE, chunk_schema, make_id, shard_of
from rag_cluster.storage import Collection, Writer, current_version, shard_name

PART = pa.schema([("rows", pa.int64())])
MOST_BLOCKS = 1000


class Stage(Protocol):
    """A table in, a table out."""

    def __call__(self, table: pa.Table) -> pa.Table:
        """The next table."""


@dataclass(frozen=True)
class Step:
    """A stage with its resources. `workers` is a range of actors, or None for stateless tasks."""

    name: str
    make: Callable[[Config], Stage]
    takes: pa.Schema
    gives: pa.Schema
    batch_size: int | None
    cpus: float
    gpus: float = 0.0
    workers: tuple[int, int] | None = None


def steps(config: Config, size: cluster.Size, work: Path) -> list[Step]:
    """The pipeline of a configuration on a cluster of a size."""
    chunks = chunk_schema(config.metadata.fields)
    vectors = chunks.append(pa.field("vector", pa.null())).append(pa.field("truncated", pa.int32()))
    plan = cluster.share(config, size)
    embedder = functools.partial(Embedder, threads=plan.encoder_threads)
    keep = Keep(work / "documents", passes=True)
    store = Keep(work / "chunks", passes=False)
    return [
        Step(
            "parse", Parser, FILE, DOCUMENT, config.resources.parse_batch,
            plan.parse_cpus, workers=(1, plan.parsers),
        ),
        Step("keep", keep, DOCUMENT, DOCUMENT, None, plan.task_cpus),
        Step("chunk", Chunker, DOCUMENT, chunks, config.resources.chunk_batch, plan.task_cpus),
        Step("enrich", Enricher, chunks, chunks, None, plan.task_cpus),
        Step(
            "embed", embedder, chunks, vectors, config.resources.encode_batch,
            plan.encoder_cpus, plan.encoder_gpus, workers=(plan.encoders, plan.encoders),
        ),
        Step("store", store, vectors, PART, None, plan.task_cpus),
    ]  # fmt: skip


def check(plan: Sequence[Step]) -> None:
    """Raises ConfigError where a step does not give what the next one takes."""
    for before, after in itertools.pairwise(plan):
        missing = [name for name in after.takes.names if name not in before.gives.names]
        if missing:
            raise ConfigError(
                f"step {after.name!r} takes {missing}, which step {before.name!r} does not give"
            )


def dataset(
    files: pa.Table, plan: Sequence[Step], config: Config, progress: Progress
) -> ray.data.Dataset:
    """The streaming plan over the files; nothing runs until it is consumed."""
    rows = math.ceil(files.num_rows / MOST_BLOCKS)
    blocks = [files.slice(i, rows) for i in range(0, files.num_rows, rows)]
    data = ray.data.from_arrow(blocks)
    for step in plan:
        options: dict[str, Any] = {
            "batch_size": step.batch_size,
            "batch_format": "pyarrow",
            "num_cpus": step.cpus,
        }
        if step.workers is None:
            task = functools.partial(run_task, step=step, config=config, progress=progress)
            data = data.map_batches(task, **options)
        else:
            data = data.map_batches(
                Actor,
                fn_constructor_args=(step, config, progress),
                num_gpus=step.gpus or None,
                compute=ray.data.ActorPoolStrategy(
                    min_size=step.workers[0], max_size=step.workers[1]
                ),
                **options,
            )
    return data


class Actor:
    """A worker process that makes its stage once and keeps it: a model, a child process."""

    def __init__(self, step: Step, config: Config, progress: Progress) -> None:
        self.step = step
        self.progress = progress
        self.stage = step.make(config)

    def __call__(self, table: pa.Table) -> pa.Table:
        """The stage's next table."""
        return _timed(self.step, self.stage, table, self.progress)


def run_task(table: pa.Table, step: Step, config: Config, progress: Progress) -> pa.Table:
    """A stateless step; what it loads stays in the worker process for the next task."""
    return _timed(step, _stage(step, config), table, progress)


_stages: dict[str, tuple[str, Stage]] = {}


def _stage(step: Step, config: Config) -> Stage:
    made_with = config.model_dump_json()
    if isinstance(step.make, Keep):
        return step.make(config)
    if step.name not in _stages or _stages[step.name][0] != made_with:
        _stages[step.name] = (made_with, step.make(config))
    return _stages[step.name][1]


def _timed(step: Step, stage: Stage, table: pa.Table, progress: Progress) -> pa.Table:
    start = time.monotonic()
    try:
        result = stage(table)
    except RagClusterError:
        raise
    except Exception as error:
        raise IngestError(f"step {step.name!r} failed on {_names(table)}: {error!r}") from error
    failed = 0
    if step.name == "parse":
        failed = sum(status == "failed" for status in result.column("status").to_pylist())
    progress.add(step.name, table.num_rows, result.num_rows, failed, time.monotonic() - start)
    return result


def _names(table: pa.Table) -> str:
    uris = list(dict.fromkeys(table.column("uri").to_pylist()))
    return uris[0] if len(uris) == 1 else f"{len(uris)} documents from {uris[0]} to {uris[-1]}"


class Keep:
    """Writes what passes to `folder`, a file per shard; gives it on, or only its row count.

    A file's name is a hash of its rows, so a task that Ray runs again replaces its own file.
    """

    def __init__(self, folder: Path, *, passes: bool) -> None:
        self.folder = folder
        self.passes = passes

    def __call__(self, config: Config) -> Stage:
        """The stage, for as many shards as the configuration has."""
        return functools.partial(self._keep, shards=config.index.shards)

    def _keep(self, table: pa.Table, shards: int) -> pa.Table:
        ids = table.column("doc_id").to_pylist()
        homes = [shard_of(doc_id, shards) for doc_id in ids]
        for shard in sorted(set(homes)):
            rows = [row for row, home in enumerate(homes) if home == shard]
            part = table.take(rows)
            keys = ["doc_id", "uri", "text"]
            name = make_id(*(value for key in keys for value in part.column(key).to_pylist()))
            folder = self.folder / shard_name(shard)
            folder.mkdir(parents=True, exist_ok=True)
            temporary = folder / f".{name}.{time.monotonic_ns()}"
            pq.write_table(part, temporary, compression="zstd")
            temporary.replace(folder / f"{name}.parquet")
        return table if self.passes else pa.table({"rows": [table.num_rows]}, PART)


def ingest(
    sources: Sequence[str],
    path: str | Path,
    config: Config,
    *,
    on_progress: Callable[[Snapshot], None] | None = None,
) -> dict[str, Any]:
    """Reads the sources into a new version of the collection and publishes it.

    Returns the summary {"collection", "version", "documents": {"ok", "empty", "failed"}, "chunks",
    "seconds", ...}. Documents of the published version that are not among the sources stay.
    Raises UsageError before any work, IngestError after; the published version stays either way.
    """
    start = time.monotonic()
    files = list_files(sources, config)
    # Loading the encoder and starting Ray take some seconds each, so they go side by side.
    with ThreadPoolExecutor(1) as beside:
        described = beside.submit(describe_encoder, config)
        with cluster.session(config) as size:
            encoder = described.result()
            with Writer(path) as writer, cluster.explained(writer.path):
                plan = steps(config, size, writer.work)
                check(plan)
                manifest = _make(writer, files, plan, config, encoder, on_progress)
                seconds = round(time.monotonic() - start, 3)
                manifest["seconds"] = seconds
                manifest["sources"] = [
                    os.fsencode(source).decode("utf-8", "replace") for source in sources
                ]
                writer.publish(manifest)
    return {
        "collection": str(writer.path),
        "version": writer.version,
        "documents": manifest["documents"],
        "chunks": manifest["chunks"],
        "truncated": manifest["truncated"],
        "this_run": manifest["this_run"],
        "skipped": skipped(files),
        "seconds": seconds,
    }


def _make(
    writer: Writer,
    files: pa.Table,
    plan: Sequence[Step],
    config: Config,
    encoder: dict[str, Any],
    on_progress: Callable[[Snapshot], None] | None,
) -> dict[str, Any]:
    """Runs the plan and builds the version; returns its manifest."""
    old = Collection.open(writer.path) if current_version(writer.path) else None
    progress = Progress.start(files)
    with Watcher(progress, on_progress):
        _consume(dataset(files, plan, config, progress))
        manifest = build.build(
            writer, old, frozenset(files["uri"].to_pylist()), config, encoder, progress
        )
    manifest["steps"] = progress.snapshot().by_step()
    return manifest


def describe_encoder(config: Config) -> dict[str, Any]:
    """What the manifest says of the encoder; loads it, so that a mistake is found before work.

    Raises ModelError where it cannot be loaded, ConfigError where chunks do not fit its window.
    """
    encoder = load_encoder(config.embed)
    check_window(config, encoder.max_tokens)
    return {
        "model": config.embed.model,
        "revision": encoder.revision,
        "dim": encoder.dim,
        "max_tokens": encoder.max_tokens,
        "normalize": config.embed.normalize,
        "query_prefix": config.embed.query_prefix,
        "passage_prefix": config.embed.passage_prefix,
    }


def _consume(data: ray.data.Dataset) -> None:
    with warnings.catch_warnings():
        # A few files keep no more than one encoder busy, and that is as it should be.
        warnings.filterwarnings("ignore", "The minimum number of concurrent actors")
        for _ in data.iter_batches(batch_size=None):
            pass
