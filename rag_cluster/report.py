"""The report of an ingest: throughput by stage, failures, duplicates, and what more would cost.

It stands beside the version that the ingest made, as report.json and, to be read, report.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_cluster.config import Config
from rag_cluster.storage.files import write_text

if TYPE_CHECKING:
    from rag_cluster.progress import Snapshot

JSON, READABLE = "report.json", "report.md"
SHORT_SECONDS = 600
SHORT = " This run was short: most of it was starting up, so the hours are far too high."
# Stages of which the work grows with the documents; the rest of an ingest is starting up.
GROWING = (
    "parse",
    "keep",
    "restore",
    "chunk",
    "enrich",
    "embed",
    "sparse",
    "store",
    "duplicates",
    "gather",
    "index",
)


def make_report(
    manifest: dict[str, Any], snapshot: Snapshot, config: Config, cpus: float, gpus: float
) -> dict[str, Any]:
    """What was done, at what rate, and the estimate for `resources.estimate_for` documents.

    Rates are rows per second of the workers' own time, and per second of the whole ingest.
    """
    seconds = max(snapshot.elapsed, 1e-9)
    stages = {
        name: {**step, "rows_per_second": round(step["rows_in"] / seconds, 1)}
        for name, step in snapshot.by_step().items()
    }
    embed = snapshot.step("embed")
    return {
        "version": manifest["version"],
        "created": manifest["created"],
        "seconds": round(snapshot.elapsed, 3),
        "cluster": {"cpus": cpus, "gpus": gpus},
        "documents": manifest["documents"],
        "changes": manifest["changes"],
        "chunks": manifest["chunks"],
        "bytes": {
            "read": snapshot.size,
            "collection": sum(
                entry["bytes"] for shard in manifest["shards"] for entry in shard["files"].values()
            ),
        },
        "stages": stages,
        "failures": manifest["failures"],
        "duplicates": {
            "texts": embed.rows_in,
            "encoded": embed.encoded,
            "share": round(1 - embed.encoded / embed.rows_in, 4) if embed.rows_in else 0.0,
        },
        "near_duplicates": manifest["near_duplicates"],
        "sparse": manifest["sparse"],
        "facts": manifest.get("facts"),
        "llm": written(manifest.get("llm")),
        "estimate": estimate(stages, manifest, snapshot, config),
    }


def written(llm: dict[str, Any] | None) -> dict[str, Any] | None:
    """What a language model wrote in this run, and what its prefix cache saved; None if nothing.

    `cache_hit_rate` is the share of the prompts' tokens that the engine had computed before, and
    `saving` that of all tokens, those that were written included.
    """
    if llm is None or llm["written"] is None:
        return None
    counts = llm["written"]
    prompt, cached = counts["prompt_tokens"], counts["cached_tokens"]
    seconds = max(counts["seconds"], 1e-9)
    return {
        **{name: llm[name] for name in ("engine", "model", "revision")},
        **counts,
        "computed_tokens": prompt - cached,
        "cache_hit_rate": round(cached / prompt, 4) if prompt else 0.0,
        "saving": round(cached / max(1, prompt + counts["completion_tokens"]), 4),
        "prompt_tokens_per_second": round(prompt / seconds, 1),
        "answers_per_second": round(counts["answers"] / seconds, 3),
    }


def rewritten(facts: dict[str, int]) -> str:
    """How many facts stand in the place of how many chunks, in words."""
    kept = f"; {facts['without']:,} chunks without a usable one are indexed as they are"
    said = f"{facts['facts']:,} facts in place of {facts['chunks']:,} chunks"
    return said + (kept if facts["without"] else "")


def estimate(
    stages: dict[str, dict[str, Any]],
    manifest: dict[str, Any],
    snapshot: Snapshot,
    config: Config,
) -> dict[str, Any] | None:
    """Worker hours by stage, hours on this cluster and disk for a bigger corpus of the same kind.

    Each is this run's figure times the ratio of documents; the hours leave nothing of the start-up
    out, so they are too high after a short run. None where no document was worked on.
    """
    worked = snapshot.step("chunk").rows_in
    total = manifest["documents_total"]
    if not worked or not total:
        return None
    wanted = config.resources.estimate_for
    ratio = wanted / worked
    hours = snapshot.elapsed * ratio / 3600
    size = sum(e["bytes"] for shard in manifest["shards"] for e in shard["files"].values())
    price = config.resources.price_per_hour
    return {
        "documents": wanted,
        "chunks": round(manifest["chunks"] * wanted / total),
        "worker_hours": {
            name: round(stages[name]["worker_seconds"] * ratio / 3600, 3)
            for name in GROWING
            if name in stages
        },
        "hours_on_this_cluster": round(hours, 3),
        "collection_bytes": round(size * wanted / total),
        "cost": None if price is None else round(price * hours, 2),
    }


def write_report(folder: Path, report: dict[str, Any]) -> None:
    """Writes both forms into a version's folder."""
    write_text(folder / JSON, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
    write_text(folder / READABLE, "\n".join(readable(report)) + "\n")


def readable(report: dict[str, Any]) -> list[str]:
    """The report as lines of Markdown."""
    lines = [
        f"# Ingest of {report['version']}, {report['created']}",
        "",
        " ".join([*_done(report), *_found(report), *_asked(report)]),
        "",
        "| stage | rows | failed | worker s | rows/s of a worker | rows/s |",
        "|---|---|---|---|---|---|",
    ]
    for name, stage in report["stages"].items():
        lines.append(
            f"| {name} | {stage['rows_in']:,} | {stage['failed']:,} | "
            f"{stage['worker_seconds']:,.1f} | {stage['rows_per_worker_second']:,.1f} | "
            f"{stage['rows_per_second']:,.1f} |"
        )
    if report["failures"]:
        lines += ["", "| failed because | documents |", "|---|---|"]
        lines += [f"| {reason} | {count:,} |" for reason, count in report["failures"].items()]
    if more := report["estimate"]:
        lines += ["", _expected(more) + (SHORT if report["seconds"] < SHORT_SECONDS else "")]
    return lines


def _done(report: dict[str, Any]) -> Iterator[str]:
    documents = ", ".join(f"{count:,} {status}" for status, count in report["documents"].items())
    changes = ", ".join(f"{count:,} {name}" for name, count in report["changes"].items())
    cluster, size = report["cluster"], report["bytes"]
    yield f"{report['seconds']:,.1f} s on {cluster['cpus']:g} CPUs and {cluster['gpus']:g} GPUs."
    yield f"Documents: {documents} ({changes}). {report['chunks']:,} chunks."
    yield (
        f"{size['read'] / 2**20:,.1f} MiB were read; the collection takes "
        f"{size['collection'] / 2**20:,.1f} MiB."
    )


def _found(report: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{report['duplicates']['share']:.1%} of the texts to embed were there already or stood "
        "more than once."
    )
    if (near := report["near_duplicates"]) and near["documents"]:
        yield f"{near['documents']:,} documents are near-duplicates of {near['clusters']:,} others."
    if facts := report.get("facts"):
        yield f"What is searched: {rewritten(facts)}."
    if sparse := report.get("sparse"):
        yield (
            f"The sparse vectors of {sparse['model']} have {sparse['weights_per_chunk']:,.1f} "
            "terms on average."
        )


def _asked(report: dict[str, Any]) -> Iterator[str]:
    if not (llm := report.get("llm")):
        return
    yield (
        f"{llm['model']} ({llm['engine']}) answered {llm['answers']:,} prompts "
        f"({llm['failed']:,} failed) in {llm['seconds']:,.1f} s: {llm['prompt_tokens']:,} "
        f"tokens read, {llm['cache_hit_rate']:.1%} of them from its cache, and "
        f"{llm['completion_tokens']:,} written."
    )
    if llm["dropped_tokens"]:
        yield (
            f"Of documents beyond its window, prompts left out {llm['dropped_tokens']:,} tokens."
        )


def _expected(more: dict[str, Any]) -> str:
    """The sentences on what more documents would take."""
    cost = "" if more["cost"] is None else f", at a price of {more['cost']:,.2f}"
    hours = ", ".join(f"{name} {hours:,.2f}" for name, hours in more["worker_hours"].items())
    return (
        f"By these figures {more['documents']:,} documents ({more['chunks']:,} chunks) take "
        f"{more['hours_on_this_cluster']:,.1f} hours on this cluster{cost}, and "
        f"{more['collection_bytes'] / 2**30:,.1f} GiB. Worker hours: {hours}."
    )
