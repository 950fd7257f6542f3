"""Latency of warm hybrid search in one process, one query at a time.

    python -m benchmarks.search_latency [--chunks N] [--queries N] [--collection PATH] [--json FILE]

A collection of generated documents of one chunk each (seeded; the words have Zipf's frequencies) is
ingested by the pipeline into `--collection`, or a temporary folder; one that is there already is
searched as it is. Then the query path itself is timed, each part alone and the whole, with the
configuration's own encoder.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_cluster.answer.query import Engine
from rag_cluster.config import load
from rag_cluster.storage import current_version

VOCABULARY = (
    "account air alloy analysis annual area asset balance bank base battery beam boundary branch "
    "budget buffer cable capital carbon cash cell change channel charge circuit city claim client "
    "cloud cluster coast code company condition contract control cost credit crop current curve "
    "customer damage data debt delay demand density design device digital dividend document drag "
    "drive earning economy edge effect energy engine equation error estimate event exchange factor "
    "failure field file filter flow fluid force forest formula fraction frame fuel function fund "
    "gas gene goal grain graph growth harbour heat income index industry inflation input insurance "
    "interest inventory island junction kernel label layer lease lens level liability limit liquid "
    "list load loan loss machine margin market material matrix measure memory metal method mineral "
    "model module motion network node noise number ocean office oil option orbit order output page "
    "panel paper parameter patient payment pension phase pipeline plan plant plate point policy "
    "pressure price process product profit protein pump quality quarter query queue radius rain "
    "rate ratio record region report reserve result return revenue risk river road rock rotor row "
    "sale sample satellite scale schema sector segment sensor series service share shear shell "
    "signal silicon site soil solution source speed station steel stock storage stream stress "
    "structure supply surface switch system table tank target tariff tax temperature tenant test "
    "thread tide token trade traffic train transfer turbine unit valley value valve vector vehicle "
    "velocity vessel volume voltage wage wall water wave weight wheel wind wing yield zone"
)
WORDS = VOCABULARY.split()
PARTS = ("encode", "dense", "bm25", "fuse", "total")


def texts(count: int, words: int, seed: int) -> Iterator[str]:
    """Sentences of words with Zipf's frequencies, one identifier such as TX-4711 in each text."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(WORDS))
    weights = 1 / np.arange(1, len(WORDS) + 1)
    weights /= weights.sum()
    for _ in range(count):
        drawn = generator.choice(order, size=words, p=weights)
        yield " ".join(WORDS[i] for i in drawn) + f" TX-{generator.integers(10_000)}."


def ingest(path: Path, chunks: int, words: int, settings: Sequence[str]) -> None:
    """Makes the collection with the pipeline."""
    from rag_cluster.pipeline import ingest as run_pipeline

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "generated.jsonl"
        with source.open("w", encoding="utf-8") as file:
            for number, text in enumerate(texts(chunks, words, seed=0)):
                file.write(json.dumps({"_id": str(number), "text": text}) + "\n")
        summary = run_pipeline([str(source)], path, load(settings=settings))
    print(f"ingested {summary['chunks']} chunks in {summary['seconds']} s", file=sys.stderr)


async def measure(engine: Engine, queries: Sequence[str], warm_up: int) -> dict[str, Any]:
    """Milliseconds of each part over the queries; the first `warm_up` are not counted."""
    found: dict[str, list[float]] = {part: [] for part in PARTS}
    start = time.perf_counter()
    for number, query in enumerate(queries):
        if number == warm_up:
            start = time.perf_counter()
        result = await engine.search(query)
        if number >= warm_up:
            for part in PARTS:
                found[part].append(result.timings_ms.get(part, 0.0))
    seconds = time.perf_counter() - start
    latency = {
        part: {f"p{q}": round(float(np.percentile(values, q)), 3) for q in (50, 95, 99)}
        for part, values in found.items()
    }
    return {
        "chunks": engine.store.searchable,
        "queries": len(queries) - warm_up,
        "latency_ms": latency,
        "queries_per_s": round((len(queries) - warm_up) / seconds, 1),
    }


def show(figures: dict[str, Any]) -> None:
    """The figures as a table."""
    print(f"{figures['chunks']} chunks, {figures['queries']} queries one at a time, ms")
    print(f"{'part':8} {'p50':>8} {'p95':>8} {'p99':>8}")
    for part, latency in figures["latency_ms"].items():
        print(f"{part:8} {latency['p50']:8.2f} {latency['p95']:8.2f} {latency['p99']:8.2f}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=60, help="words of a chunk")
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--warm-up", type=int, default=30, help="queries that are not counted")
    parser.add_argument("--collection", type=Path, help="kept here, and searched if it is there")
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = options.collection or Path(folder) / "collection"
        if not path.exists() or current_version(path) is None:
            ingest(path, options.chunks, options.words, options.settings)
        engine = Engine.open(path, settings=options.settings)
        queries = list(texts(options.queries + options.warm_up, 7, seed=1))
        figures = asyncio.run(measure(engine, queries, options.warm_up))
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
