"""The batch pipeline: a list of steps, run as one streaming Ray Data plan, then the index.

    FILE -> parse -> keep -> chunk -> enrich -> embed -> store -> (index.build) -> a new version

`keep` and `store` write what passes through them to the run's work folder, by shard; the plan
itself carries only small tables from step to step, so its memory does not grow with the corpus.
What did not change since the published version, and what an interrupted run has finished, does not
enter the plan (see `changes`).
"""

from __future__ import annotations

import dataclasses
import functools
import os
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray.data

from rag_cluster import cluster, work
from rag_cluster.chunk.stage import Chunker
from rag_cluster.chunk.window import check_window
from rag_cluster.config import Config, fingerprint
from rag_cluster.embed import Claim, Embedder
from rag_cluster.enrich import Enricher
from rag_cluster.errors import UsageError
from rag_cluster.hashes import Hashes
from rag_cluster.index import build, reuse
from rag_cluster.index.documents import Job
from rag_cluster.models.encoder import load_encoder
from rag_cluster.parse.sources import skipped
from rag_cluster.parse.stage import Parser
from rag_cluster.progress import Progress, Snapshot, Watcher
from rag_cluster.report import make_report, write_report
from rag_cluster.run import Run, list_sources, prepare
from rag_cluster.schema import DOCUMENT, FILE, STATUSES, chunk_schema
from rag_cluster.steps import Shared, Stage, Step, check, source, through
from rag_cluster.storage import FORMAT, Writer, check_place, current_version
from rag_cluster.storage.files import remove
from rag_cluster.storage.lock import locked


def steps(run: Run, progress: Progress) -> list[Step]:
    """The pipeline of a run."""
    config, shards = run.config, run.config.index.shards
    chunks = chunk_schema(config.metadata.fields)
    vectors = work.part_schema(config.metadata.fields, run.encoder["dim"])
    plan = cluster.share(config, run.size, run.files_bytes)
    done = Shared(run.changes.done)
    keep = functools.partial(work.KeepDocuments, run.work, shards, done)
    store = functools.partial(work.KeepChunks, run.work, shards)
    embedder = functools.partial(
        _embedder,
        threads=plan.encoder_threads,
        known=Shared(Hashes(reuse.held_hashes(run.known))),
        moved=_moved(run),
        claim=progress.claim,
    )
    name = f"{run.work} {time.time_ns()}"
    return [
        Step(
            "parse", Parser, FILE, DOCUMENT, config.resources.parse_batch,
            plan.parse_cpus, workers=(1, plan.parsers),
        ),
        Step("keep", lambda _: keep(), DOCUMENT, DOCUMENT, None, plan.task_cpus, run=name),
        Step("chunk", Chunker, DOCUMENT, chunks, config.resources.chunk_batch, plan.task_cpus),
        Step("enrich", Enricher, chunks, chunks, None, plan.task_cpus),
        Step(
            "embed", embedder, chunks, vectors, config.resources.encode_batch,
            plan.encoder_cpus, plan.encoder_gpus, workers=(plan.encoders, plan.encoders),
        ),
        Step(
            "store", lambda _: store(), vectors, work.KeepChunks.GIVES, None, plan.task_cpus,
            run=name,
        ),
    ]  # fmt: skip


def _embedder(
    config: Config,
    *,
    threads: int,
    known: Callable[[], Hashes],
    moved: Callable[[], reuse.Moved] | None,
    claim: Claim | None,
) -> Stage:
    renamed = None if moved is None else moved()
    return Embedder(config, threads, known=known(), moved=renamed, claim=claim)


def _moved(run: Run) -> Shared[reuse.Moved] | None:
    """The vectors of files that may have got another name; None without any such file."""
    if run.old is None or not run.changes.moved:
        return None
    paths = [
        (run.old.shard_path("chunks", i), run.old.shard_path("vectors", i))
        for i in range(run.old.shards)
    ]
    return Shared(reuse.moved_texts(paths, run.changes.moved))


def ingest(
    sources: Sequence[str],
    path: str | Path,
    config: Config,
    *,
    sync: bool = False,
    retry_failed: bool = False,
    on_progress: Callable[[Snapshot], None] | None = None,
) -> dict[str, Any]:
    """Brings the collection to what the sources hold now, as a new version, and publishes it.

    Only what changed is parsed, chunked and embedded. Documents of files that are not among the
    sources stay, unless `sync`. With `retry_failed` the files of failed documents are read again;
    without sources, only they. An interrupted run is gone on with by the same call.

    Returns the summary {"collection", "version", "documents": {"ok", "empty", "failed"}, "chunks",
    "changes", "work", "seconds", ...}. Raises UsageError before any work, IngestError after; the
    published version stays either way.
    """
    start = time.monotonic()
    if sync and not sources:
        raise UsageError("a sync needs its sources: without any, all documents would go")
    place = check_place(path)
    before = current_version(place)
    listing = list_sources(sources, place, config, retry_failed=retry_failed)
    build.check(config)
    if before:
        with locked(place):  # a second writer is told before Ray is started
            pass
    # Loading the encoder and starting Ray take some seconds each, so they go side by side.
    with ThreadPoolExecutor(1) as beside:
        described = beside.submit(describe_encoder, config)
        with cluster.session(config) as size:
            encoder = described.result()
            name = fingerprint(
                str(FORMAT), *sorted(sources), str(retry_failed),
                *build.fingerprints(config).values(),
                *(f"{key}={value}" for key, value in encoder.items()),
            )  # fmt: skip
            with Writer(path, name) as writer, cluster.explained(writer.path):
                if current_version(place) != before:  # what it read may not be listed yet
                    listing = list_sources(sources, place, config, retry_failed=retry_failed)
                run = prepare(
                    writer, listing, config, encoder, size, sync=sync, retry_failed=retry_failed
                )
                if run.unchanged:
                    summary = _nothing_to_do(run)
                else:
                    summary = _make(run, writer, sources, start, on_progress)
                published = summary["version"] == writer.version
    return {
        **summary,
        "published": published,
        "skipped": skipped(listing),
        "seconds": round(time.monotonic() - start, 3),
    }


def _nothing_to_do(run: Run, done: dict[str, int] | None = None) -> dict[str, Any]:
    assert run.old is not None
    documents = run.old.documents(work.IDENTITY)
    mine = documents.filter(pa.array(run.changes.listed.holds(work.file_digests(documents))))
    statuses = mine["status"].to_pylist()
    return _summary(
        run.old.path,
        run.old.manifest
        | {
            "this_run": {status: statuses.count(status) for status in STATUSES},
            "changes": {"added": 0, "changed": 0, "unchanged": len(documents), "removed": 0},
            "work": done or {"files": 0, "documents": 0, "texts": 0},
        },
    )


def _make(
    run: Run,
    writer: Writer,
    sources: Sequence[str],
    start: float,
    on_progress: Callable[[Snapshot], None] | None,
) -> dict[str, Any]:
    """Runs the plan, builds the version, publishes it; returns the summary."""
    progress = Progress.start(run.changes.files)
    plan = steps(run, progress)
    check(plan)
    with Watcher(progress, on_progress):
        data = _dataset(run, plan, progress)
        if data is not None:
            _consume(data)
        manifest = build.build(writer, _job(run, plan, progress), run.encoder, progress)
    snapshot = progress.snapshot()
    manifest["work"] = {
        "files": snapshot.step("parse").rows_in,
        "documents": snapshot.step("chunk").rows_in,
        "texts": snapshot.step("embed").encoded,
    }
    manifest["seconds"] = round(time.monotonic() - start, 3)
    manifest["sources"] = [os.fsencode(source).decode("utf-8", "replace") for source in sources]
    if run.like_before and not any(manifest["changes"][n] for n in ("added", "changed", "removed")):
        remove(run.work)
        return _nothing_to_do(run, manifest["work"])
    made = make_report(manifest, snapshot, run.config, run.size.cpus, run.size.gpus)
    write_report(writer.folder, made)
    build.publish(writer, manifest, run.config)
    return _summary(writer.path, manifest)


def _summary(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    names = ("version", "documents", "chunks", "truncated", "near_duplicates", "this_run",
             "changes", "work", "dense")  # fmt: skip
    summary = {"collection": str(path), **{name: manifest[name] for name in names}}
    # A manifest that was read has its keys in the order of the alphabet.
    for name in ("documents", "this_run"):
        summary[name] = {status: summary[name][status] for status in STATUSES}
    return summary


def _dataset(run: Run, plan: Sequence[Step], progress: Progress) -> ray.data.Dataset | None:
    """The documents to parse, and those to chunk again, through the plan; None without any."""
    config = run.config
    read, rest = plan[:2], plan[2:]
    parts = []
    if run.changes.files.num_rows:
        parts.append(through(source(run.changes.files), read, config, progress))
    if run.changes.restore:
        assert run.old is not None
        stored = work.stored_documents(
            [run.old.shard_path("documents", i) for i in range(run.old.shards)]
        )
        restore = functools.partial(
            work.RestoreDocuments, Shared(run.changes.gone), Shared(run.changes.done)
        )
        step = Step(
            "restore", lambda _: restore(), work.STORED, DOCUMENT, 1, read[1].cpus, run=read[1].run
        )
        parts.append(through(source(stored), [step], config, progress))
    if not parts:
        return None
    data = parts[0] if len(parts) == 1 else parts[0].union(parts[1])
    return through(data, rest, config, progress)


def _job(run: Run, plan: Sequence[Step], progress: Progress) -> Job:
    """What the shards are gathered with; encodes first what no worker has encoded in the end."""
    places, missing = build.locate_vectors(_chunk_parts(run), run.known)
    if len(missing):
        embed, store = plan[-2:]
        alone = functools.partial(
            _embedder, threads=1, known=functools.partial(Hashes.of, ()), moved=None, claim=None
        )
        rows = reuse.rows_of(_chunk_parts(run), missing, embed.takes)
        again = [dataclasses.replace(embed, make=alone), store]
        _consume(through(source(rows), again, run.config, progress))
        places, missing = build.locate_vectors(_chunk_parts(run), run.known)
    return Job(
        work=run.work,
        folder=run.writer.folder,
        old=None if run.old is None else run.old.folder,
        old_shards=0 if run.old is None else run.old.shards,
        gone=run.changes.gone,
        listed=run.changes.listed,
        current=run.current,
        fits=run.fits,
        config=run.config,
        dim=run.encoder["dim"],
        places=places,
    )


def _chunk_parts(run: Run) -> list[Path]:
    return [
        path
        for shard in range(run.config.index.shards)
        for path in work.part_files(run.work, work.CHUNKS, shard)
    ]


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
