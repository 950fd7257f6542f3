"""Peak memory of an ingest at N and at 4N documents: it must not grow with the corpus.

    python -m benchmarks.ingest_memory [--documents N] [--words N] [--shards N] [--json FILE]

Documents are generated (seeded) as one JSONL file; the encoder is the fake
one, so that the pipeline itself is measured. Memory is each process's own (USS), sampled every half
second: the driver, the largest worker, and all workers together (parsers and their child processes,
tasks, the encoder; Ray's own processes are left out), and all of them with the driver.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

WORDS = [f"word{i}" for i in range(5000)]
RAY_OWN = ("raylet", "gcs_server", "dashboard", "log_monitor", "runtime_env", "ray::_Counter")


def write_records(path: Path, documents: int, words: int, seed: int = 0) -> None:
    """A JSONL file of generated records."""
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for number in range(documents):
            text = (
                ". ".join(" ".join(draw.choices(WORDS, k=15)) for _ in range(max(1, words // 15)))
                + "."
            )
            file.write(json.dumps({"_id": f"d{number}", "title": f"Doc {number}", "text": text}))
            file.write("\n")


def measure(documents: int, words: int, shards: int, folder: Path) -> dict[str, Any]:
    """One ingest in processes of its own; peaks in MiB, and what it said at its end."""
    source = folder / f"records-{documents}.jsonl"
    write_records(source, documents, words)
    command = [
        sys.executable, "-c", "from rag_cluster.cli import main; main()", "ingest", str(source),
        "--collection", str(folder / f"collection-{documents}"), "--json",
        "--set", "embed.model=fake:64", "--set", "parse.record_part_mb=1",
        "--set", f"index.shards={shards}",
    ]  # fmt: skip
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    peaks = {"driver": 0.0, "largest_worker": 0.0, "all_workers": 0.0, "all": 0.0}
    while driver.poll() is None:
        workers = [size for name, size in _sizes(driver.pid) if not _is_rays_own(name)]
        own = _uss(psutil.Process(driver.pid))
        peaks["driver"] = max(peaks["driver"], own)
        peaks["largest_worker"] = max(peaks["largest_worker"], *workers, 0.0)
        peaks["all_workers"] = max(peaks["all_workers"], sum(workers))
        peaks["all"] = max(peaks["all"], own + sum(workers))
        time.sleep(0.5)
    assert driver.stdout is not None
    summary = json.loads(driver.stdout.read().splitlines()[-1])
    return {
        "documents": documents,
        "chunks": summary["chunks"],
        "seconds": summary["seconds"],
        "documents_per_s": round(documents / summary["seconds"], 1),
        **{name: round(value, 1) for name, value in peaks.items()},
    }


def _sizes(pid: int) -> list[tuple[str, float]]:
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            found.append((" ".join(process.cmdline()), _uss(process)))
        except psutil.Error:
            continue
    return found


def _uss(process: psutil.Process) -> float:
    try:
        return float(process.memory_full_info().uss) / 2**20
    except psutil.Error:
        return 0.0


def _is_rays_own(command: str) -> bool:
    return any(name in command for name in RAY_OWN)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for N and one for 4N."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=5000)
    parser.add_argument("--words", type=int, default=300, help="words of a document")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            measure(n, options.words, options.shards, Path(folder))
            for n in (options.documents, 4 * options.documents)
        ]
    print("".join(f"{name:>16}" for name in rows[0]))
    for row in rows:
        print("".join(f"{value:>16,}" for value in row.values()))
    growth = {
        k: round(rows[1][k] / max(rows[0][k], 1.0), 2)
        for k in ("driver", "largest_worker", "all_workers", "all")
    }
    print(f"growth at 4 times the documents: {growth}")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "growth": growth}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
