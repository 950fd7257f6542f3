"""The same ingest on 1, 2 and 4 logical nodes of this machine: does the work divide?

    python -m benchmarks.nodes [--documents N] [--nodes 1 2 4] [--set KEY=VALUE]... [--json FILE]

Each node is a Ray node of one CPU with processes of its own, and has one encoder of one thread.
More nodes than the machine has CPUs cannot be faster; that the work goes to all of them is seen
from the rows that each node encoded, which are the run's own counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

from benchmarks.incremental import write_file

SETTINGS = ("resources.encode_batch=32",)  # so that there are batches enough to share out
NODE = {"num_cpus": 1, "object_store_memory": 200 * 2**20}


def measure(nodes: int, source: Path, path: Path, settings: Sequence[str]) -> dict[str, Any]:
    """One ingest by a driver of its own on a cluster of so many nodes."""
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**NODE)
        command = [
            sys.executable, "-c", "from rag_cluster.cli import main; main()", "ingest",
            str(source), "--collection", str(path), "--json",
            *(word for setting in (f"resources.encoders={nodes}", *SETTINGS, *settings)
              for word in ("--set", setting)),
        ]  # fmt: skip
        done = subprocess.run(
            command, env=os.environ | {"RAY_ADDRESS": cluster.address}, check=True,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    finally:
        cluster.shutdown()
    summary = json.loads(done.stdout.splitlines()[-1])
    report = json.loads((path / "versions" / summary["version"] / "report.json").read_text())
    embed = report["stages"]["embed"]
    return {
        "nodes": nodes,
        "chunks": summary["chunks"],
        "seconds": summary["seconds"],
        "rows_by_node": sorted(embed["rows_by_node"].values(), reverse=True),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for each number of nodes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=600)
    parser.add_argument("--words", type=int, default=300)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--set", dest="settings", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        source.mkdir()
        for number in range(options.documents):
            write_file(source, number, options.words, seed=0)
        for nodes in options.nodes:
            path = Path(folder) / f"collection-{nodes}"
            rows.append(measure(nodes, source, path, options.settings))
            rows[-1]["times_as_fast"] = round(rows[0]["seconds"] / rows[-1]["seconds"], 2)
            print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
