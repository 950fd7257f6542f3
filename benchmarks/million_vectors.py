"""The dense index at a million vectors: build, size, recall and speed against exact search.

    python -m benchmarks.million_vectors [--vectors N] [--shards N] [--work DIR] [--json FILE]

Vectors are clustered like those of texts (seeded): the packaged encoder's vector of a sentence of
this project, plus a difference of two other sentences' vectors, scaled by a factor that is drawn
for each, plus a little noise in all directions. The percentiles of nearest neighbours' similarities
are printed, for the sentences too. Queries are further draws that are not in the index.

The index is made and searched by the functions of the pipeline and the query path: trained once,
filled and written shard by shard, opened memory-mapped; `nprobe` and `k_factor` are those that the
build's own measuring settles on. Exact search is FAISS's flat index over all vectors in memory.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_cluster.config import Dense, Embed
from rag_cluster.index import dense, recall
from rag_cluster.index.factory import choose_factory, training_rows, with_measured
from rag_cluster.index.sharded import DenseShards
from rag_cluster.index.topk import Hits
from rag_cluster.models.ports import Vectors

ROOT = Path(__file__).parents[1]
BLOCK = 50_000
K = 10


def sentences() -> list[str]:
    """The sentences of this project's texts, examples and docstrings, none of them twice."""
    patterns = ("examples/**/*.md", "examples/**/*.txt", "examples/**/*.jsonl", "docs/*.md", "*.md",
                "rag_cluster/**/*.py", "benchmarks/*.py", "tests/**/*.py")  # fmt: skip
    found: dict[str, None] = {}
    for path in (path for pattern in patterns for path in sorted(ROOT.glob(pattern))):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            text = "\n\n".join(re.findall(r'"""(.*?)"""', text, re.DOTALL))
        for paragraph in re.split(r"\n\s*\n|\n(?=[-*#|] ?)", text):
            for sentence in re.split(
                r"(?<=[.!?:;])\s+(?=[A-Z(\'\"`])", " ".join(paragraph.split())
            ):
                if 5 <= len(sentence.split()) <= 60:
                    found[sentence] = None
    return list(found)


def encoded(work: Path) -> Vectors:
    """The sentences' vectors float32 [n, 384], kept in the work folder."""
    path = work / "sentences.npy"
    if not path.exists():
        from rag_cluster.models.encoder import load_encoder

        np.save(path, load_encoder(Embed()).encode(sentences(), "passage"))
    vectors: Vectors = np.load(path)
    return vectors


def clustered(real: Vectors, count: int, seed: int) -> Iterator[Vectors]:
    """Blocks of `count` unit vectors in all."""
    generator = np.random.default_rng(seed)
    dim = real.shape[1]
    for start in range(0, count, BLOCK):
        rows = min(BLOCK, count - start)
        center, plus, minus = generator.integers(0, len(real), (3, rows))
        spread = generator.uniform(0.4, 1.0, (rows, 1)).astype(np.float32)
        vectors = real[center] + spread * (real[plus] - real[minus]) / np.float32(np.sqrt(2))
        vectors += generator.normal(0, 0.15 / np.sqrt(dim), (rows, dim)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        yield vectors


def build(vectors: Vectors, shards: int, work: Path, config: Dense) -> dict[str, Any]:
    """Trains, fills and writes the shards."""
    parts = np.array_split(vectors, shards)
    factory = choose_factory(len(vectors), vectors.shape[1], config)
    start = time.perf_counter()
    sample = vectors[training_rows(len(vectors), config)]
    trained = dense.to_bytes(dense.train(sample, factory, config, dim=vectors.shape[1]))
    trained_after = time.perf_counter()
    paths = shard_paths(work, shards)
    for part, path in zip(parts, paths, strict=True):
        dense.write(dense.build_shard(dense.from_bytes(trained), part), path)
    filled_after = time.perf_counter()
    size = sum(path.stat().st_size for path in paths)
    return {
        "factory": factory,
        "train_s": round(trained_after - start, 1),
        "fill_and_write_s": round(filled_after - trained_after, 1),
        "bytes_per_vector": round(size / len(vectors), 1),
    }


def settle(
    vectors: Vectors, shards: int, work: Path, config: Dense, factory: str
) -> dict[str, Any]:
    """Measures recall and raises the settings, as the build does."""
    parts = np.array_split(vectors, shards)
    own = recall.query_rows(len(vectors), config)
    exact = [recall.exact_hits(_blocks(part), vectors[own], config) for part in parts]
    truth = recall.truth(vectors[own], own, exact, [len(part) for part in parts])
    paths = shard_paths(work, shards)
    return recall.measured(lambda c: DenseShards.open(paths, c), truth, config, factory)


def _blocks(vectors: Vectors) -> Iterator[Vectors]:
    return (vectors[start : start + BLOCK] for start in range(0, len(vectors), BLOCK))


def timed(search: Callable[[Vectors], Hits], queries: Vectors, batch: int) -> dict[str, float]:
    """Milliseconds per query: the median over batches, and the processor's mean over all of them.

    The first batch is not counted. The processor's time, of all threads, does not depend on what
    else the machine does.
    """
    found = []
    cpu = 0.0
    for start in range(0, len(queries) - batch + 1, batch):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        search(queries[start : start + batch])
        found.append(time.perf_counter() - begin)
        cpu += time.process_time() - cpu_begin if start else 0.0
    counted = found[1:]
    return {
        "ms": round(float(np.median(counted)) / batch * 1000, 3),
        "cpu_ms": round(cpu / len(counted) / batch * 1000, 3),
    }


def faster(index: dict[str, float], exact: dict[str, float]) -> dict[str, Any]:
    """Both, and how many times faster the index is."""
    times = {name: round(exact[name] / index[name], 1) for name in index}
    return {"index": index, "exact": exact, "times_faster": times}


def compare(
    vectors: Vectors, queries: Vectors, paths: Sequence[Path], config: Dense
) -> dict[str, Any]:
    """Recall@10 and milliseconds per query of the shards and of exact search."""
    import faiss

    shards = DenseShards.open(paths, config)
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)
    every = dense.DenseShard(flat, config)
    hits, seconds = recall.exact_hits(_blocks(vectors), queries, config)
    truth = recall.Truth(queries, np.full(len(queries), recall.NO_ROW), hits, seconds)

    def ours(some: Vectors) -> Hits:
        return shards.search(some, K)

    def exact(some: Vectors) -> Hits:
        return every.search(some, K)

    def products(some: Vectors) -> Hits:
        return flat.search(some, K)

    found = ours(queries)[1]  # also reads the files, once
    return {
        "recall@10": round(recall.recall_of(found, truth), 4),
        "nearest_similarity": _percentiles(hits[0][:, 0]),
        "tenth_similarity": _percentiles(hits[0][:, K - 1]),
        "one_at_a_time": faster(timed(ours, queries, 1), timed(exact, queries[:25], 1)),
        "batches_of_16": faster(timed(ours, queries, 16), timed(exact, queries[:80], 16)),
        "batches_of_200": faster(timed(ours, queries, 200), timed(products, queries[:600], 200)),
    }


def _percentiles(values: Vectors) -> dict[str, float]:
    return {f"p{p}": round(float(np.percentile(values, p)), 3) for p in (5, 50, 95)}


def nearest(real: Vectors) -> dict[str, float]:
    """Percentiles of the similarity of each sentence to the one most like it."""
    similarity = real @ real.T
    np.fill_diagonal(similarity, -1)
    return _percentiles(similarity.max(axis=1))


def made(vectors: Vectors, shards: int, work: Path, config: Dense) -> dict[str, Any]:
    """What `build` returned; of an earlier run in this folder where that asked for the same."""
    asked = [
        *vectors.shape,
        shards,
        config.model_dump(mode="json", include={"factory", "metric", "train_size", "seed"}),
    ]
    path = work / "made.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if known.get("asked") != asked:
        known = {"asked": asked, "figures": build(vectors, shards, work, config)}
        path.write_text(json.dumps(known), encoding="utf-8")
    figures: dict[str, Any] = known["figures"]
    return figures


def run(count: int, shards: int, work: Path, config: Dense) -> dict[str, Any]:
    """All figures."""
    real = encoded(work)
    vectors = gathered(real, count, seed=0)
    queries = gathered(real, 1000, seed=1)
    built = made(vectors, shards, work, config)
    settled = settle(vectors, shards, work, config, built["factory"])
    tuned = with_measured(config, settled)
    return {
        "vectors": count,
        "shards": shards,
        "sentences": len(real),
        "sentences_nearest_similarity": nearest(real),
        **built,
        "settled": settled,
        **compare(vectors, queries, shard_paths(work, shards), tuned),
    }


def gathered(real: Vectors, count: int, seed: int) -> Vectors:
    """The blocks of `clustered` as one array float32 [count, 384]."""
    vectors = np.empty((count, real.shape[1]), dtype=np.float32)
    for number, block in enumerate(clustered(real, count, seed)):
        vectors[number * BLOCK : number * BLOCK + len(block)] = block
    return vectors


def shard_paths(work: Path, shards: int) -> list[Path]:
    """The shards' files."""
    return [work / f"shard-{shard}.faiss" for shard in range(shards)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vectors", type=int, default=1_000_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--factory", default="auto", help="FAISS factory string")
    parser.add_argument("--train-size", type=int, default=Dense().train_size)
    parser.add_argument("--min-recall", type=float, default=0.97, help="to be reached by tuning")
    parser.add_argument(
        "--work", type=Path, metavar="DIR", help="keep shards here; what is there is used"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    config = Dense(
        factory=options.factory, train_size=options.train_size, min_recall=options.min_recall
    )
    with tempfile.TemporaryDirectory() as folder:
        work = options.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        figures = run(options.vectors, options.shards, work, config)
    text = json.dumps(figures, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
