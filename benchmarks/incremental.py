"""Ingesting again after 1 % of the documents changed, against the whole ingest.

    python -m benchmarks.incremental [--documents N] [--words N] [--set KEY=VALUE]... [--json FILE]

Documents are generated text files (seeded). The first run ingests all, the second one follows after
every hundredth was rewritten, and a third one after nothing changed. All use the configuration's
own encoder, on a Ray that runs already, so that starting it is not part of any of them.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.search_latency import WORDS
from rag_cluster import cluster
from rag_cluster.config import load
from rag_cluster.pipeline import ingest


def write_file(folder: Path, number: int, words: int, seed: int) -> None:
    """A text file of generated sentences."""
    draw = random.Random(f"{seed} {number}")
    sentences = [" ".join(draw.choices(WORDS, k=15)) for _ in range(max(1, words // 15))]
    (folder / f"{number:06}.txt").write_text(". ".join(sentences) + ".")


def measure(documents: int, words: int, settings: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each of the three runs."""
    config = load(settings=settings)
    rows = []
    with tempfile.TemporaryDirectory() as folder, cluster.session(config):
        source = Path(folder) / "source"
        source.mkdir()
        for number in range(documents):
            write_file(source, number, words, seed=0)
        for name in ("all", "1 % changed", "nothing changed"):
            if name == "1 % changed":
                for number in range(0, documents, 100):
                    write_file(source, number, words, seed=1)
            summary = ingest([str(source)], Path(folder) / "collection", config, sync=True)
            rows.append({"run": name, **summary["changes"], **summary["work"],
                         "seconds": summary["seconds"]})  # fmt: skip
            rows[-1]["share"] = round(summary["seconds"] / rows[0]["seconds"], 4)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--words", type=int, default=300)
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    rows = measure(options.documents, options.words, options.settings)
    print("".join(f"{name:>16}" for name in rows[0]))
    for row in rows:
        print("".join(f"{value:>16}" for value in row.values()))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
