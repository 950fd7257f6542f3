"""The manifest of a version: what made it, and what is in it."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from rag_cluster.config import Config, fingerprint
from rag_cluster.index.gather import Gathered
from rag_cluster.schema import STATUSES
from rag_cluster.storage import FORMAT, Writer

LIBRARIES = ("rag-cluster", "ray", "pyarrow", "pymupdf", "faiss-cpu", "bm25s", "elasticsearch",
             "torch", "sentence-transformers", "trafilatura")  # fmt: skip


def fingerprints(config: Config) -> dict[str, str]:
    """Names of the settings that made documents and chunks (`made`), and indexes (`index`)."""
    embed = config.embed.model_dump(mode="json")
    for machine in ("device", "dtype", "batch_size", "truncation"):
        embed.pop(machine, None)
    writing: list[str] = []
    if config.writes is not None:
        writing = [f"{config.llm.temperature}", f"{config.llm.window}", repr(config.prompts)]
    made = fingerprint(
        config.chunk, config.enrich, config.metadata, *(f"{k}={v}" for k, v in embed.items()),
        *writing,
    )  # fmt: skip
    return {"parse": fingerprint(config.parse), "made": made, "index": fingerprint(config.index)}


def make_manifest(
    writer: Writer,
    config: Config,
    encoder: dict[str, Any],
    factory: str,
    gathered: list[Gathered],
    files: list[dict[str, Any]],
) -> dict[str, Any]:
    """The manifest of what `gathered` and `files` say of each shard.

    The build adds what it measured of the dense index, and what is on a server.
    """
    documents = sum((g.documents for g in gathered), Counter())
    return {
        "format": FORMAT,
        "version": writer.version,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "config": config.stored(),
        "fingerprints": fingerprints(config),
        "encoder": encoder,
        "dense": {"factory": factory},
        "lexical": config.index.lexical.model_dump(mode="json"),
        "sparse": _sparse(config, gathered),
        "facts": _facts(config, gathered),
        "documents": {status: documents[status] for status in STATUSES},
        "documents_total": sum(documents.values()),
        "changes": {
            name: sum(g.changes[name] for g in gathered)
            for name in ("added", "changed", "unchanged", "removed")
        },
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


def _sparse(config: Config, gathered: list[Gathered]) -> dict[str, Any] | None:
    """How many weights the learned sparse vectors have, and one on average; None without any."""
    if config.sparse.model is None:
        return None
    weights, chunks = sum(g.weights for g in gathered), sum(g.searchable for g in gathered)
    return {
        "model": config.sparse.model,
        "weights": weights,
        "weights_per_chunk": round(weights / max(1, chunks), 1),
    }


def _facts(config: Config, gathered: list[Gathered]) -> dict[str, int] | None:
    """The counts of `gather.count_facts` over all shards; None where no chunk is rewritten."""
    if config.writes != "facts":
        return None
    counts = sum((g.facts for g in gathered), Counter())
    return {name: counts[name] for name in ("facts", "chunks", "without")}


def _version_of(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None
