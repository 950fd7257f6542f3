"""Every file of a folder through the parse stage: a row for each, how it went, how long it took.

    python -m benchmarks.parser_files FOLDER [--json FILE] [--list]

Meant for files that are odd or broken. It ends with an error if a file has no row. `--list` shows
each file that did not become text, with the reason.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rag_cluster.config import Config
from rag_cluster.parse.sources import list_files
from rag_cluster.parse.stage import Parser

_SLOWEST = 8


def measure(folder: Path, config: Config) -> dict[str, Any]:
    """The rows of the folder's files by status and reason, and the slowest files."""
    files = list_files([str(folder)], config)
    parser = Parser(config)
    rows: list[dict[str, Any]] = []
    begun = time.perf_counter()
    for number in range(files.num_rows):
        before = time.perf_counter()
        (row,) = parser(files.slice(number, 1)).to_pylist()
        row["seconds"] = round(time.perf_counter() - before, 3)
        rows.append(row)
    seconds = time.perf_counter() - begun
    parser.close()
    missing = set(files["uri"].to_pylist()) - {row["uri"] for row in rows}
    assert not missing, f"no row for {sorted(missing)}"
    slowest = sorted(rows, key=lambda row: -row["seconds"])[:_SLOWEST]
    return {
        "files": files.num_rows,
        "rows": len(rows),
        "seconds": round(seconds, 1),
        "pages": sum(len(row["pages"]) for row in rows),
        "status": dict(Counter(row["status"] for row in rows)),
        "reasons": dict(Counter(row["error"] for row in rows if row["error"]).most_common()),
        "slowest": {_short(row["uri"]): row["seconds"] for row in slowest},
        "not_ok": [
            [_short(row["uri"]), row["status"], row["error"], row["detail"]]
            for row in rows
            if row["status"] != "ok"
        ],
    }


def _short(uri: str) -> str:
    return "/".join(uri.split("/")[-2:])


def main() -> None:
    """Measure, print a table, and write the figures."""
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--json", type=Path)
    arguments.add_argument("--list", action="store_true")
    given = arguments.parse_args()
    figures = measure(given.folder, Config())
    print(f"{figures['files']} files, {figures['rows']} rows, {figures['seconds']} s")
    for name in ("status", "reasons", "slowest"):
        print(f"{name}:")
        for key, value in figures[name].items():
            print(f"  {value:>8}  {key}")
    if given.list:
        for entry in figures["not_ok"]:
            print(*entry, sep=" | ")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
