r"""How well the main text of web pages is found: precision, recall and F1 against the true text.

    python -m benchmarks.html_extraction FOLDER [--json FILE]

FOLDER holds `html/ID.html` and `ground-truth.json` ({ID: {"articleBody": text}}). A document's
score compares the bags of word tokens (`\w+`) of the extracted and the true text; the figure is
the mean over documents. The same with bags of 4-token shingles, which also sees order, stands
beside it. Markdown's own signs (heading marks, list markers, table rules) hold no word tokens but
for the numbers of ordered lists, so nothing is stripped before.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from pathlib import Path

from rag_cluster.config import Parse
from rag_cluster.parse.formats import parse_file

_TOKEN = re.compile(r"\w+")
_SHINGLE = 4


def overlap(found: Counter[object], true: Counter[object]) -> tuple[float, float, float]:
    """Precision, recall and F1 of two bags; two empty bags agree."""
    if not found and not true:
        return 1.0, 1.0, 1.0
    common = (found & true).total()
    precision = common / found.total() if found else 0.0
    recall = common / true.total() if true else 0.0
    both = precision + recall
    return precision, recall, 2 * precision * recall / both if both else 0.0


def shingles(tokens: list[str]) -> Counter[object]:
    """The bag of runs of 4 tokens; a shorter text is one run."""
    last = max(1, len(tokens) - _SHINGLE + 1) if tokens else 0
    return Counter(tuple(tokens[start : start + _SHINGLE]) for start in range(last))


def measure(folder: Path) -> dict[str, object]:
    """The mean scores over the folder's documents, and the worst documents."""
    truth = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    bags, runs, seconds = {}, {}, 0.0
    for name, entry in truth.items():
        path = folder / "html" / f"{name}.html"
        data = path.read_bytes()
        begun = time.perf_counter()
        text = parse_file(data, str(path), Parse())[0]["text"]
        seconds += time.perf_counter() - begun
        found, true = _TOKEN.findall(text), _TOKEN.findall(entry["articleBody"])
        bags[name] = overlap(Counter(found), Counter(true))
        runs[name] = overlap(shingles(found), shingles(true))
    worst = sorted(bags, key=lambda name: bags[name][2])[:5]
    return {
        "documents": len(bags),
        "token": _mean(list(bags.values())),
        "shingle": _mean(list(runs.values())),
        "pages_per_s": round(len(bags) / seconds, 1),
        "worst": {name[:8]: [round(value, 3) for value in bags[name]] for name in worst},
    }


def _mean(scores: list[tuple[float, float, float]]) -> dict[str, float]:
    names = ("precision", "recall", "f1")
    return {
        name: round(sum(score[place] for score in scores) / max(1, len(scores)), 4)
        for place, name in enumerate(names)
    }


def main() -> None:
    """Measure, print a table, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = measure(arguments.folder)
    print(f"{figures['documents']} documents, {figures['pages_per_s']} a second")
    print(f"{'bag of':<12}{'precision':>10}{'recall':>10}{'F1':>10}")
    for kind in ("token", "shingle"):
        scores = figures[kind]
        assert isinstance(scores, dict)
        print(f"{kind + 's':<12}" + "".join(f"{value:>10.4f}" for value in scores.values()))
    print("worst (precision, recall, F1):")
    worst = figures["worst"]
    assert isinstance(worst, dict)
    for name, values in worst.items():
        print(f"  {name}  {values}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
