"""What the confidence label is worth: how often the search found the answer, by label.

    python -m benchmarks.confidence FOLDER... [--variants NAME...] [--work FOLDER] [--json FILE]

A folder has `corpus.jsonl`, `queries.jsonl` and `qrels/*.tsv` (BEIR). Each judged query is asked
twice: as it is, and with all its relevant documents filtered out, so that the collection cannot
answer it. Found means that a relevant document is among the first three hits. For every way to
fuse, each label's count and the share found are printed; a higher label must mean a higher share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.retrieval_quality import VARIANTS, RememberingEncoder, ingested, judged
from rag_cluster import config as configuration
from rag_cluster.answer.guardrails.confidence import check_confidence
from rag_cluster.answer.opened import Opened
from rag_cluster.answer.opening import Models, query_config
from rag_cluster.answer.query import Engine
from rag_cluster.errors import RagClusterError
from rag_cluster.storage import Collection

LABELS = ("high", "medium", "low")
SHOWN = ("routed", "rrf", "convex 0.6", "dense", "bm25")
DEEP = 3

Outcome = tuple[str, bool]  # a label, and whether a relevant document was found


def measure(
    folder: Path, variants: Sequence[str], work: Path, settings: Sequence[str] = ()
) -> dict[str, list[Outcome]]:
    """For each variant the outcome of every judged query, as it is and with its answer left out."""
    config = configuration.load(None, settings)
    collection = Collection.open(ingested(folder, config, work))
    queries, judgements = judged(folder, collection)
    models = Models(config, collection)
    encoder = RememberingEncoder(models.encoder)
    found: dict[str, list[Outcome]] = {}
    for variant in variants:
        chosen = query_config(collection, None, [*settings, *VARIANTS[variant]])
        engine = Engine(
            Opened(collection, chosen), chosen, encoder, Models(chosen, collection).scorers()
        )
        found[variant] = []
        for query_id, relevance in judgements.relevance.items():
            relevant = {key[0] for key, value in relevance.items() if value > 0}
            found[variant] += asyncio.run(_ask_twice(engine, queries[query_id], relevant))
    return found


async def _ask_twice(engine: Engine, query: str, relevant: set[str]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for where in (None, {"not": {"doc_id": sorted(relevant)}}):
        result = await engine.search(query, where=where)
        language = engine.config.index.lexical.language
        verdict = check_confidence(result.query, result.hits, result.standing, language)
        hit = any(passage.doc_id in relevant for passage in result.hits[:DEEP])
        outcomes.append((str(verdict.value), hit))
    return outcomes


def by_label(outcomes: Sequence[Outcome]) -> dict[str, dict[str, Any]]:
    """For each label how many outcomes have it, and the share found of them."""
    parts = {label: [hit for name, hit in outcomes if name == label] for label in LABELS}
    return {
        label: {"queries": len(hits), "found": sum(hits) / len(hits) if hits else None}
        for label, hits in parts.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each folder and variant."""
    parser = argparse.ArgumentParser(prog="benchmarks.confidence", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(SHOWN))
    default = Path(tempfile.gettempdir()) / "rag-cluster-benchmarks"
    parser.add_argument("--work", type=Path, default=default, help="where collections are kept")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(arguments)
    print(f"{'folder':<16}{'variant':<12}" + "".join(f"{label:>16}" for label in LABELS))
    figures: dict[str, Any] = {}
    try:
        for folder in options.folders:
            found = measure(folder, options.variants, options.work, options.settings)
            figures[folder.name] = {name: by_label(outcomes) for name, outcomes in found.items()}
            for name, labels in figures[folder.name].items():
                print(f"{folder.name:<16}{name:<12}" + "".join(map(_shown, labels.values())))
    except RagClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def _shown(part: dict[str, Any]) -> str:
    share = "-" if part["found"] is None else f"{part['found']:.2f}"
    return f"{share} of {part['queries']}".rjust(16)


if __name__ == "__main__":
    sys.exit(main())
