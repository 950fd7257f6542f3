"""What chunkers retrieve of the passages that answer, token by token, at the same token budget.

    python -m benchmarks.chunking FOLDER [--doc NAME] [--budgets 200 400] [--set key.path=value]

FOLDER has `docs/` and `questions.jsonl` ({"question", "doc", "spans": [[start, end], ...]}, spans
of a document's characters); `--doc` takes one of the documents alone. Every variant is ingested by
the pipeline into `--work` (once) and searched by the query path. Of the hits, best first, so many
tokens are taken as the budget says; the last chunk is cut where it ends. Tokens are those of the
encoder's tokenizer.

Recall is the share of the gold tokens that were taken, precision the share of the taken tokens that
are gold, and IoU what both have in common over what either has; figures are means over questions,
as B. Smith and A. Troynikov, Evaluating Chunking Strategies for Retrieval (Chroma, 2024), do it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.retrieval_quality import RememberingEncoder, ingested
from rag_cluster import config as configuration
from rag_cluster.answer.opened import Opened
from rag_cluster.answer.opening import Models, query_config
from rag_cluster.answer.query import Engine
from rag_cluster.errors import DatasetError, RagClusterError
from rag_cluster.models.tokenizer import load_tokenizer
from rag_cluster.schema import Passage
from rag_cluster.storage import Collection

STRATEGIES = ("fixed", "sentence", "recursive", "section", "semantic")
VARIANTS: dict[str, list[str]] = {
    **{name: [f"chunk.strategy={name}"] for name in STRATEGIES},
    **{f"{name}, late": [f"chunk.strategy={name}", "embed.mode=late"] for name in STRATEGIES},
}
# Only where it is named, with --set llm.engine=..., since a language model has to write the facts.
# Its figures are of the chunks that the facts found; "tokens" are those of what is searched.
WRITTEN: dict[str, list[str]] = {"proposition": ["chunk.strategy=proposition"]}
SEARCHES = {"dense": ["retrieve.channels=[dense]"], "default": []}
# Contexts would be the same two file names before every chunk.
SETTINGS = ["enrich.kind=none"]

Tokens = set[tuple[str, int]]


@dataclass(frozen=True)
class Question:
    """A question and the tokens of the text that answers it."""

    text: str
    gold: Tokens


class Texts:
    """The tokens of each document, by their positions."""

    def __init__(self, collection: Collection) -> None:
        embed = collection.config.embed
        tokenizer = load_tokenizer(embed.model, embed.revision)
        rows = collection.documents(["uri", "text"]).to_pylist()
        self.text = {row["uri"]: row["text"] for row in rows}
        self._starts = {
            uri: [start for start, _ in tokenizer.spans(text)] for uri, text in self.text.items()
        }

    def tokens(self, uri: str, start: int, end: int) -> list[tuple[str, int]]:
        """The tokens that start in [start, end) of a document, in order."""
        starts = self._starts[uri]
        return [(uri, i) for i in range(bisect_left(starts, start), bisect_left(starts, end))]

    def questions(self, file: Path) -> list[Question]:
        """The questions of a file. Raises DatasetError where a span is not what it should be."""
        found = []
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            (uri,) = (uri for uri in self.text if uri.endswith(f"/{row['doc']}"))
            for (start, end), text in zip(row["spans"], row["span_texts"], strict=True):
                if self.text[uri][start:end].strip() != text.strip():
                    raise DatasetError(f"{file}: {row['_id']}: [{start}:{end}] is another text")
            spans = [self.tokens(uri, start, end) for start, end in row["spans"]]
            found.append(Question(row["question"], {token for span in spans for token in span}))
        return found


def alone(folder: Path, doc: str, work: Path) -> Path:
    """A folder with one of the documents and its questions. Raises DatasetError without any."""
    rows = (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    own = [row for row in rows if json.loads(row)["doc"] == doc]
    if not own:
        raise DatasetError(f"{folder}: no question is about the document {doc!r}")
    out = work / f"{folder.name}-{doc}"
    (out / "docs").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(folder / "docs" / doc, out / "docs" / doc)
    (out / "questions.jsonl").write_text("".join(own), encoding="utf-8")
    return out


def score(
    hits: Sequence[Passage], gold: Tokens, budget: int, texts: Texts
) -> tuple[float, float, float]:
    """Recall, precision and IoU of the first `budget` tokens of the hits."""
    taken: list[tuple[str, int]] = []
    for hit in hits:
        if len(taken) >= budget:
            break
        taken += texts.tokens(hit.uri, hit.start, hit.end)
    del taken[budget:]
    common = len(gold.intersection(taken))
    return common / len(gold), common / max(1, len(taken)), common / len(gold.union(taken))


def measure(
    folder: Path, variant: str, settings: Sequence[str], budgets: Sequence[int], work: Path
) -> dict[str, Any]:
    """The figures of a variant: {"chunks", "tokens", "scores": {search: {budget: [r, p, iou]}}}."""
    wanted = [*SETTINGS, *(VARIANTS | WRITTEN)[variant], *settings]
    path = ingested(folder, configuration.load(None, wanted), work)
    collection = Collection.open(path)
    texts = Texts(collection)
    questions = texts.questions(folder / "questions.jsonl")
    chunks = collection.chunks()
    tokens = chunks.table.slice(0, chunks.searchable)["tokens"].to_pylist()
    encoder = RememberingEncoder(Models(query_config(collection), collection).encoder)
    scores = {
        name: asyncio.run(
            _scores(_engine(collection, search, encoder), questions, budgets, texts)
        )
        for name, search in SEARCHES.items()
    }  # fmt: skip
    return {
        "variant": variant,
        "chunks": len(tokens),
        "tokens": round(sum(tokens) / max(1, len(tokens)), 1),
        "scores": scores,
    }


def _engine(collection: Collection, search: Sequence[str], encoder: RememberingEncoder) -> Engine:
    config = query_config(collection, None, search)
    return Engine(Opened(collection, config), config, encoder)


async def _scores(
    engine: Engine, questions: Sequence[Question], budgets: Sequence[int], texts: Texts
) -> dict[str, list[float]]:
    sums = {str(budget): [0.0, 0.0, 0.0] for budget in budgets}
    for question in questions:
        hits = (await engine.search(question.text, top_k=max(10, max(budgets) // 10))).hits
        for budget in budgets:
            found = score(hits, question.gold, budget, texts)
            sums[str(budget)] = [a + b for a, b in zip(sums[str(budget)], found, strict=True)]
    return {
        budget: [round(value / max(1, len(questions)), 4) for value in values]
        for budget, values in sums.items()
    }


def lines(figures: Mapping[str, Any]) -> list[str]:
    """The figures of a variant as rows of the table."""
    return [
        f"{figures['variant']:<18}{figures['chunks']:>7}{figures['tokens']:>8}  {search:<8}"
        f"{budget:>7}" + "".join(f"{value:>11.3f}" for value in values)
        for search, by_budget in figures["scores"].items()
        for budget, values in by_budget.items()
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures each variant and prints its rows as it goes."""
    parser = argparse.ArgumentParser(prog="benchmarks.chunking", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--doc", metavar="NAME", help="of these documents; default: all")
    parser.add_argument("--budgets", nargs="+", type=int, default=[200, 400, 800])
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS | WRITTEN, default=list(VARIANTS))
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / "rag-cluster-benchmarks",
        help="where collections are kept between runs",
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(arguments)
    print(f"{'variant':<18}{'chunks':>7}{'tokens':>8}  {'search':<8}{'budget':>7}"
          f"{'recall':>11}{'precision':>11}{'IoU':>11}")  # fmt: skip
    results = []
    try:
        folder = options.folder
        if options.doc:
            folder = alone(folder, options.doc, options.work)
        for variant in options.variants:
            results.append(
                measure(folder, variant, options.settings, options.budgets, options.work)
            )
            print("\n".join(lines(results[-1])), flush=True)
    except RagClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
