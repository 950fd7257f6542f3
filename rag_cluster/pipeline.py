"""The batch pipeline: a plan that runs on Ray Data, then the index, then a new version.

    sources -> run (what is to do) -> plan (documents, chunks, vectors) -> index.build -> version

`keep` and `store` write what passes through them to the run's work folder, by shard; the plan
itself carries only small tables from step to step, so its memory does not grow with the corpus.
What did not change since the published version, and what an interrupted run has finished, does not
enter the plan (see `changes`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_cluster import cluster, generated, generation, work
from rag_cluster.chunk.window import check_sparse_window, check_window
from rag_cluster.config import Config, fingerprint
from rag_cluster.embed import check_late
from rag_cluster.errors import UsageError
from rag_cluster.index import build, reuse
from rag_cluster.index.documents import Job
from rag_cluster.index.manifest import fingerprints
from rag_cluster.models.encoder import load_encoder
from rag_cluster.parse.sources import skipped
from rag_cluster.plan import Plan, chunk_parts
from rag_cluster.progress import Progress, Snapshot, Watcher
from rag_cluster.report import make_report, write_report
from rag_cluster.run import Run, list_sources, prepare
from rag_cluster.schema import STATUSES, chunk_schema
from rag_cluster.storage import FORMAT, Writer, check_place, current_version
from rag_cluster.storage.files import remove
from rag_cluster.storage.lock import locked


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
    _check_sources(sources, sync=sync)
    place = check_place(path)
    before = current_version(place)
    listing = list_sources(sources, place, config, retry_failed=retry_failed)
    build.check(config)
    generation.check(config.llm)
    if before:
        with locked(place):  # a second writer is told before Ray is started
            pass
    # Loading the encoder and starting Ray take some seconds each, so they go side by side.
    with ThreadPoolExecutor(1) as beside:
        described = beside.submit(describe_encoder, config)
        with cluster.session(config) as size:
            encoder = described.result()
            model = None if config.writes is None else generated.describe(config)
            name = fingerprint(
                str(FORMAT), *sorted(sources), str(retry_failed),
                *fingerprints(config).values(),
                *(f"{key}={value}" for key, value in (encoder | (model or {})).items()),
            )  # fmt: skip
            with Writer(path, name) as writer, cluster.explained(writer.path):
                if current_version(place) != before:  # what it read may not be listed yet
                    listing = list_sources(sources, place, config, retry_failed=retry_failed)
                run = prepare(
                    writer, listing, config, encoder, model, size, sync=sync,
                    retry_failed=retry_failed,
                )  # fmt: skip
                if run.unchanged:
                    summary = _nothing_to_do(run)
                else:
                    with Progress.start(run.changes.files) as progress:
                        summary = _make(run, writer, sources, start, progress, on_progress)
                published = summary["version"] == writer.version
    return {
        **summary,
        "published": published,
        "skipped": skipped(listing),
        "seconds": round(time.monotonic() - start, 3),
    }


def _check_sources(sources: Sequence[str], *, sync: bool) -> None:
    if isinstance(sources, str):  # each letter of it would be one
        raise UsageError(f"sources are a list: [{sources!r}]")
    if sync and not sources:
        raise UsageError("a sync needs its sources: without any, all documents would go")


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
    progress: Progress,
    on_progress: Callable[[Snapshot], None] | None,
) -> dict[str, Any]:
    """Runs the plan, builds the version, publishes it; returns the summary."""
    plan = Plan(run, progress)
    with Watcher(progress, on_progress):
        plan.consume()
        manifest = build.build(writer, _job(run, plan), run.encoder, progress)
    manifest["llm"] = None if run.model is None else run.model | {"written": plan.texts}
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
    summary["sparse"] = manifest.get("sparse")  # which older versions do not have
    summary["facts"] = manifest.get("facts")
    # A manifest that was read has its keys in the order of the alphabet.
    for name in ("documents", "this_run"):
        summary[name] = {status: summary[name][status] for status in STATUSES}
    return summary


def _job(run: Run, plan: Plan) -> Job:
    """What the shards are gathered with; encodes first what no worker has encoded in the end."""
    places, missing = build.locate_vectors(chunk_parts(run), run.known)
    if len(missing):
        plan.encode(
            reuse.rows_of(chunk_parts(run), missing, chunk_schema(run.config.metadata.fields))
        )
        places, missing = build.locate_vectors(chunk_parts(run), run.known)
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


def describe_encoder(config: Config) -> dict[str, Any]:
    """What the manifest says of the encoder; loads it, so that a mistake is found before work.

    Raises ModelError where it cannot be loaded, ConfigError where chunks do not fit its window.
    """
    encoder = load_encoder(config.embed)
    check_window(config, encoder.max_tokens)
    if config.embed.mode == "late":
        check_late(config, encoder)
    described = {
        "model": config.embed.model,
        "revision": encoder.revision,
        "mode": config.embed.mode,
        "dim": encoder.dim,
        "max_tokens": encoder.max_tokens,
        "normalize": config.embed.normalize,
        "query_prefix": config.embed.query_prefix,
        "passage_prefix": config.embed.passage_prefix,
    }
    return described if config.sparse.model is None else described | {"sparse": _sparse(config)}


def _sparse(config: Config) -> dict[str, Any]:
    """The same of the model of sparse vectors."""
    from rag_cluster.models.sparse import load_sparse_encoder

    encoder = load_sparse_encoder(config.sparse)
    check_sparse_window(config, encoder.max_tokens)
    return {
        "model": config.sparse.model,
        "revision": encoder.revision,
        "terms": encoder.terms,
        "max_tokens": encoder.max_tokens,
        "max_terms": config.sparse.max_terms,
    }
