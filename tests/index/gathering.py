"""Documents as parsers give them, run through the stages and gathered, without a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_cluster import config
from rag_cluster.chunk.stage import Chunker
from rag_cluster.config import Config
from rag_cluster.embed import Embedder, LateEmbedder, SparseEmbedder
from rag_cluster.enrich import Enricher
from rag_cluster.hashes import Hashes
from rag_cluster.index.documents import Job
from rag_cluster.index.gather import Gathered, gather_shard
from rag_cluster.index.reuse import Places
from rag_cluster.parse.rows import make_row
from rag_cluster.schema import DOCUMENT, rows_to_table
from rag_cluster.storage import read_table, shard_name
from rag_cluster.work import KeepChunks, KeepDocuments, file_digest

SETTINGS = config.load(None, ["embed.model=fake:32", "chunk.size=12", "enrich.kind=none"])


def documents(texts: dict[str, str], **columns: Any) -> pa.Table:
    rows = []
    for uri, text in texts.items():
        source = {"file": uri, "part": None, "etag": text, "parse": "p", "documents": 1}
        section = {"title": "", "level": 0, "parent": -1, "path": "", "role": "body", "start": 0,
                   "body": 0, "end": len(text)}  # fmt: skip
        made = make_row(uri, text.encode(), status="ok", text=text, sections=[section])
        rows.append({**made, "source": source, **columns})
    return rows_to_table(rows, DOCUMENT)


def run(
    work: Path, table: pa.Table, shards: int = 1, settings: Config = SETTINGS, **embedder: Any
) -> None:
    """What the plan does with parsed documents."""
    passed = KeepDocuments(work, shards, lambda: Hashes.of([]))(table)
    if settings.embed.mode == "late":
        vectors = Enricher(settings)(LateEmbedder(settings, Chunker(settings), **embedder)(passed))
    else:
        vectors = Embedder(settings, **embedder)(Enricher(settings)(Chunker(settings)(passed)))
    if settings.sparse.model is not None:
        vectors = SparseEmbedder(settings)(vectors)
    KeepChunks(work, shards)(vectors)


def job_of(folder: Path, table: pa.Table, shards: int = 1, **job: Any) -> Job:
    found = [(source["file"], source["etag"]) for source in table["source"].to_pylist()]
    settings = job.pop("settings", SETTINGS)
    made = Job(
        work=folder / "work", folder=folder / "version", old=None, old_shards=0,
        gone=Hashes.of([]), listed=Hashes.of(file_digest(file, None) for file, _ in found),
        current=Hashes.of(file_digest(file, None, etag) for file, etag in found),
        fits=True, config=settings.model_copy(update={"index": config.Index(shards=shards)}),
        dim=32, places=Places.none(),
    )  # fmt: skip
    return replace(made, **job)


def gather(folder: Path, table: pa.Table, shards: int = 1, **job: Any) -> list[Gathered]:
    made = job_of(folder, table, shards, **job)
    return [gather_shard(shard, made) for shard in range(shards)]


def rows(folder: Path, kind: str, shards: int = 1) -> list[dict[str, Any]]:
    tables = [read_table(folder / "version" / kind / f"{shard_name(i)}.parquet")
              for i in range(shards)]  # fmt: skip
    found = pa.concat_tables(tables).to_pylist()
    return sorted(found, key=lambda row: row.get("chunk_id") or row["doc_id"])
