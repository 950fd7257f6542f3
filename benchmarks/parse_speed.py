"""Pages per second that the parse stage reads from PDFs, isolation included, on one core.

    python -m benchmarks.parse_speed FOLDER [--mode fast] [--json FILE]

Every PDF goes through the stage with one child process. Beside it stands PyMuPDF's bare
`get_text("dict")` on the same file in the same run, which no parser that needs fonts and positions
can beat; the quotient of both is steadier than either figure on a machine with other work to do.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import pymupdf

from rag_cluster.config import Config, Parse
from rag_cluster.parse.pdf_page import FLAGS
from rag_cluster.parse.sources import list_files
from rag_cluster.parse.stage import Parser


def measure(folder: Path, mode: str) -> dict[str, Any]:
    """Pages, seconds and pages per second of every PDF under the folder, and of all together."""
    config = Config(parse=Parse(mode=mode))  # type: ignore[arg-type]
    files = list_files([str(folder)], config)
    parser = Parser(config)
    results = []
    for number in range(files.num_rows):
        uri = files["uri"][number].as_py()
        if not uri.lower().endswith(".pdf"):
            continue
        if not results:
            parser(files.slice(number, 1))  # the child process starts and imports
        bare_seconds = _bare(Path(uri.removeprefix("file://")))
        begun = time.perf_counter()
        (row,) = parser(files.slice(number, 1)).to_pylist()
        seconds = time.perf_counter() - begun
        results.append(
            {
                "file": uri.rsplit("/", 1)[-1],
                "pages": len(row["pages"]),
                "seconds": seconds,
                "bare_seconds": bare_seconds,
                "sections": len(row["sections"]),
                "tables": len(row["tables"]),
            }
        )
    parser.close()
    total = {key: sum(r[key] for r in results) for key in ("pages", "seconds", "bare_seconds")}
    return {"mode": mode, "files": results, "total": total}


def _bare(path: Path) -> float:
    begun = time.perf_counter()
    try:
        with pymupdf.open(path) as document:
            for page in document:
                page.get_text("dict", flags=FLAGS)
    except (RuntimeError, ValueError):
        pass  # a broken file: the stage has a row for it
    return time.perf_counter() - begun


def _line(name: str, result: dict[str, Any]) -> str:
    pages = result["pages"]
    speed = pages / result["seconds"] if result["seconds"] else 0.0
    bare = pages / result["bare_seconds"] if result["bare_seconds"] else 0.0
    quotient = result["seconds"] / result["bare_seconds"] if result["bare_seconds"] else 0.0
    return f"{name[:44]:44} {pages:6} {speed:9.1f} {bare:9.1f} {quotient:8.2f}"


def main() -> None:
    """Print the table; write the figures where --json says."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--mode", choices=["fast", "tables", "layout"], default="fast")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = measure(arguments.folder, arguments.mode)
    print(f"{'file':44} {'pages':>6} {'pages/s':>9} {'bare':>9} {'quotient':>8}")
    for result in figures["files"]:
        print(_line(result["file"], result))
    print(_line("all", figures["total"]))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
