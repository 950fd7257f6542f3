"""Retrieval quality of channels, fusions, feedback and rerankers, on folders with qrels.

    python -m benchmarks.retrieval_quality FOLDER... [--set key.path=value] [--json FILE]

A folder has `queries.jsonl`, `qrels/*.tsv`, and `corpus.jsonl` (BEIR), `pdfs/` or `docs/`. It is
ingested by the pipeline once for each set of settings that shape an index, into `--work`, and
searched there by the query path in every variant; so a second sweep over the same index takes
seconds. With `--smallest N` of its files and the queries that they answer, where all are too many.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_cluster import config as configuration
from rag_cluster.answer.opened import Opened
from rag_cluster.answer.opening import Models, query_config
from rag_cluster.answer.query import Engine
from rag_cluster.config import Config, fingerprint
from rag_cluster.errors import DatasetError, RagClusterError
from rag_cluster.evaluate.datasets import read_qrels, read_queries
from rag_cluster.evaluate.matching import Judgements, match
from rag_cluster.evaluate.metrics import Measures
from rag_cluster.evaluate.run import evaluate, search_depth
from rag_cluster.models.ports import AsyncEncoder, Kind, Vectors
from rag_cluster.schema import Passage
from rag_cluster.storage import Collection, current_version

MEASURES = "nDCG@10 R@100 RR@10 Success@10"
ALPHAS = (0.4, 0.5, 0.6, 0.7, 0.8)

VARIANTS: dict[str, list[str]] = {
    "dense": ["retrieve.channels=[dense]"],
    "bm25": ["retrieve.channels=[bm25]"],
    "rrf": ["retrieve.fusion=rrf"],
    **{f"convex {a}": ["retrieve.fusion=convex", f"retrieve.alpha={a}"] for a in ALPHAS},
    "routed": ["retrieve.fusion=routed"],
    "default": [],
    "bm25, feedback": ["retrieve.channels=[bm25]", "transform.kind=feedback"],
    "default, feedback": ["transform.kind=feedback"],
    "default, late interaction": ["rerank.kind=late_interaction"],
}
# With --set sparse.model=...; the two word channels share what alpha leaves.
SPARSE: dict[str, list[str]] = {
    "splade": ["retrieve.channels=[splade]"],
    "bm25 + splade": ["retrieve.channels=[bm25, splade]"],
    "dense + splade": ["retrieve.channels=[dense, splade]"],
    "dense + bm25 + splade": ["retrieve.channels=[dense, bm25, splade]"],
}


class RememberingEncoder:
    """An encoder that encodes each query once, whatever the number of variants."""

    def __init__(self, encoder: AsyncEncoder) -> None:
        self._encoder = encoder
        self._known: dict[tuple[str, Kind], Vectors] = {}

    async def encode(self, texts: Sequence[str], kind: Kind = "query") -> Vectors:
        """float32 [len(texts), dim]."""
        new = [text for text in dict.fromkeys(texts) if (text, kind) not in self._known]
        if new:
            for text, vector in zip(new, await self._encoder.encode(new, kind), strict=True):
                self._known[text, kind] = vector
        return np.stack([self._known[text, kind] for text in texts])


def measure(
    folder: Path,
    settings: Sequence[str],
    work: Path,
    names: str,
    variants: Sequence[str],
    show: Callable[[str, Mapping[str, float]], None],
) -> dict[str, Any]:
    """The measures of each variant on one folder."""
    config = configuration.load(None, settings)
    path = ingested(folder, config, work)
    collection = Collection.open(path)
    queries, judgements = judged(folder, collection)
    measures = Measures(names)
    models = Models(config, collection)
    encoder = RememberingEncoder(models.encoder)
    results: dict[str, Mapping[str, float]] = {}
    for variant in variants or [*VARIANTS, *(SPARSE if config.sparse.model else ())]:
        chosen = query_config(collection, None, [*settings, *(VARIANTS | SPARSE)[variant]])
        own = Models(chosen, collection)
        engine = Engine(
            Opened(collection, chosen),
            chosen,
            encoder,
            own.scorers(),
            transformer=own.transformer(),
        )
        results[variant] = asyncio.run(_evaluate(engine, queries, judgements, measures))
        show(variant, results[variant])
    return {
        "folder": folder.name,
        "settings": list(settings),
        "documents": collection.manifest["documents"],
        "chunks": collection.manifest["chunks"],
        "queries": sum(query in judgements.relevance for query in queries),
        "results": results,
    }


def judged(folder: Path, collection: Collection) -> tuple[Mapping[str, str], Judgements]:
    """The queries of a folder, and what is relevant for them in its collection."""
    documents = collection.documents(["doc_id", "uri"]).to_pydict()
    judgements = match(
        [qrel for file in _qrels(folder) for qrel in read_qrels(file)],
        zip(documents["doc_id"], documents["uri"], strict=True),
    )
    return read_queries(folder / "queries.jsonl"), judgements


async def _evaluate(
    engine: Engine, queries: Mapping[str, str], judgements: Judgements, measures: Measures
) -> dict[str, float]:
    depth = search_depth(measures)

    async def search(query: str) -> Sequence[Passage]:
        return (await engine.search(query, top_k=depth)).hits

    return (await evaluate(search, queries, judgements, measures)).metrics


def ingested(folder: Path, config: Config, work: Path) -> Path:
    """The collection of the folder under `work`, made now if it is not there."""
    shape = fingerprint(
        config.parse, config.metadata, config.chunk, config.enrich, config.embed, config.index,
        *([config.sparse] if config.sparse.model else []),
    )  # fmt: skip
    path = work / f"{folder.name}-{shape}"
    if current_version(path) is None:
        from rag_cluster.pipeline import ingest

        summary = ingest([str(_source(folder))], path, config)
        print(f"{folder.name}: {summary['chunks']} chunks in {summary['seconds']} s", flush=True)
    return path


def smallest(folder: Path, number: int, work: Path) -> Path:
    """A folder with the smallest files of one, and the queries whose judgements lie in them."""
    source = _source(folder)
    if source.is_file():
        raise DatasetError(f"--smallest takes files, and {source} has records")
    files = sorted((file for file in source.iterdir() if file.is_file()), key=_bytes)[:number]
    out = work / f"{folder.name}-smallest-{number}"
    for part in (source.name, "qrels"):
        (out / part).mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copyfile(file, out / source.name / file.name)
    names = {name for file in files for name in (file.name, file.stem)}
    shutil.copyfile(folder / "queries.jsonl", out / "queries.jsonl")
    for qrels in _qrels(folder):
        header, *lines = qrels.read_text(encoding="utf-8").splitlines(keepends=True)
        elsewhere = {line.split("\t")[0] for line in lines if line.split("\t")[1] not in names}
        own = [line for line in lines if line.split("\t")[0] not in elsewhere]
        (out / "qrels" / qrels.name).write_text("".join([header, *own]), encoding="utf-8")
    return out


def _bytes(file: Path) -> tuple[int, str]:
    return file.stat().st_size, file.name


def _source(folder: Path) -> Path:
    for name in ("corpus.jsonl", "pdfs", "docs"):
        if (folder / name).exists():
            return folder / name
    raise DatasetError(f"{folder} has no corpus.jsonl, pdfs/ or docs/ to ingest")


def _qrels(folder: Path) -> list[Path]:
    files = sorted((folder / "qrels").glob("*.tsv"))
    if not files:
        raise DatasetError(f"{folder} has no qrels/*.tsv to measure with")
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures each folder and prints a table as it goes."""
    parser = argparse.ArgumentParser(prog="benchmarks.retrieval_quality", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--smallest", type=int, metavar="N", help="files of pdfs/ or docs/")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--metrics", default=MEASURES, help=f"default: {MEASURES}")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS | SPARSE, default=[])
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / "rag-cluster-benchmarks",
        help="where collections are kept between runs",
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(arguments)
    names = options.metrics.split()

    def show(variant: str, metrics: Mapping[str, float]) -> None:
        print(f"{variant:<28}" + "".join(f"{metrics[n]:>12.4f}" for n in names), flush=True)

    results = []
    try:
        for whole in options.folders:
            part = options.smallest
            folder = smallest(whole, part, options.work) if part else whole
            print(f"{folder.name:<28}" + "".join(f"{name:>12}" for name in names), flush=True)
            results.append(
                measure(
                    folder,
                    options.settings,
                    options.work,
                    options.metrics,
                    options.variants,
                    show,
                )
            )
    except RagClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
