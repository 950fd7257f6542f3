"""What the prefix cache saves when contexts are written for the chunks of long documents.

    python -m benchmarks.prefix_cache --model local-llm [--documents N] [--tokens N] [--chunks N]
                                      [--answer N] [--uncached N] [--runs NAME...] [--json FILE]

The same prompts run through vLLM by `ray.data.llm`, as an ingest sends them: with the cache, with
it but shuffled, so that the chunks of a document do not follow one another, and without it. Without
a cache every prompt is computed whole, whatever came before, so a few show its throughput. The
cache holds two and a half documents, as on a machine with many documents at work at a time: with
more documents than that, shuffled prompts show what the order is worth. Seconds are the engine's
own, from the first request that it queued to the last token, so that starting it is not counted.
Beside them stands the processor time of vLLM's workers for a prompt, starting included, which other
work on the machine does not change.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import psutil
import pyarrow as pa
import ray.data

from benchmarks.search_latency import WORDS
from rag_cluster import cluster
from rag_cluster.asking import Prompts
from rag_cluster.chunk.stage import Chunker
from rag_cluster.config import Config, load
from rag_cluster.enrich.contextual import Contextual
from rag_cluster.generated import Generated, describe
from rag_cluster.generation import ask_vllm, whole_documents
from rag_cluster.models.prompting import Prompting
from rag_cluster.schema import DOCUMENT, rows_to_table

RUNS = ("cache", "shuffled", "no-cache")
BLOCK = 16  # tokens of a block of vLLM's cache


def make_document(number: int, tokens: int, prompting: Prompting) -> dict[str, Any]:
    """A document of generated sentences with about so many of the model's tokens."""
    draw = random.Random(f"document {number}")
    text, sentences = "", []
    while prompting.count(text) < tokens:
        sentences += [" ".join(draw.choices(WORDS, k=15)) + "." for _ in range(50)]
        text = " ".join(sentences)
    text = prompting.first(text, tokens)
    return {"doc_id": f"d{number}", "uri": f"{number}.txt", "title": "", "text": text,
            "sections": [], "status": "ok", "content_hash": str(number)}  # fmt: skip


def make_prompts(config: Config, documents: int, tokens: int, chunks: int, work: Path) -> pa.Table:
    """PROMPT rows: so many chunks of each document, document by document."""
    prompting = Prompting(config)
    table = rows_to_table(
        [make_document(number, tokens, prompting) for number in range(documents)], DOCUMENT
    )

    def chunk(table: pa.Table) -> pa.Table:
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in Chunker(config)(table).to_pylist():
            rows.setdefault(row["doc_id"], []).append(row)
        steps = {name: max(1, len(own) // chunks) for name, own in rows.items()}
        kept = [row for name, own in rows.items() for row in own[:: steps[name]][:chunks]]
        return pa.Table.from_pylist(kept)

    stage = Prompts(
        config,
        chunk=chunk,
        make=lambda prompting: Contextual(config, prompting),
        model=describe(config),
        known=Generated([]),
        work=work,
    )
    return stage(table)


class ProcessorTime:
    """Adds up the processor time (seconds) of vLLM's processes while the block runs."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def seconds(self) -> float:
        """The sum over all processes that were seen."""
        return sum(self._seconds.values())

    def _watch(self) -> None:
        while not self._ended.wait(1.0):
            for process in psutil.process_iter(["pid", "cmdline"]):
                if "VLLM::" not in " ".join(process.info["cmdline"] or ()):
                    continue
                with contextlib.suppress(psutil.Error):
                    times = process.cpu_times()
                    self._seconds[process.info["pid"]] = times.user + times.system

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def run(blocks: Sequence[pa.Table], config: Config) -> dict[str, Any]:
    """One run: tokens, the share of the prompts' that were cached, seconds and throughput."""
    with whole_documents(), ProcessorTime() as processor:
        answers = ask_vllm(ray.data.from_arrow(list(blocks)), config).to_pandas()
    begun = min(one["queued_ts"] for one in answers["metrics"])
    ended = max(one["last_token_ts"] for one in answers["metrics"])
    prompt, cached = int(answers["num_input_tokens"].sum()), int(answers["cached_tokens"].sum())
    return {
        "prompts": len(answers),
        "prompt_tokens": prompt,
        "cached": round(cached / prompt, 4),
        "seconds": round(ended - begun, 1),
        "cpu_s_a_prompt": round(processor.seconds / len(answers), 2),
        "prompts_per_s": round(len(answers) / (ended - begun), 4),
    }


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row for each of the three runs."""
    window = options.tokens + 1024
    cache = {"num_gpu_blocks_override": int(2.5 * window / BLOCK)}
    settings = [
        "enrich.kind=contextual", f"enrich.context_tokens={options.answer}", "llm.engine=vllm",
        f"llm.model={options.model}", f"llm.window={window}", "embed.model=fake:512",
        "chunk.strategy=sentence", "chunk.size=180", f"llm.batch_size={options.chunks}",
    ]  # fmt: skip
    config = load(settings=[*settings, f"llm.engine_kwargs={json.dumps(cache)}"])
    off = cache | {"enable_prefix_caching": False}
    without = load(settings=[*settings, f"llm.engine_kwargs={json.dumps(off)}"])
    table = make_prompts(config, options.documents, options.tokens, options.chunks, Path())
    order = random.Random(0).sample(range(table.num_rows), table.num_rows)
    blocks = [table.slice(at, options.chunks) for at in range(0, table.num_rows, options.chunks)]
    runs = {
        "cache": (blocks, config),
        "shuffled": ([table.take(pa.array(order))], config),
        "no-cache": ([blocks[0].slice(0, options.uncached)], without),
    }
    rows: list[dict[str, Any]] = []
    for name in options.runs:
        given, settled = runs[name]
        with cluster.session(settled):
            rows.append({"run": name, **run(given, settled)})
        rows[-1]["cpu_ratio"] = round(rows[-1]["cpu_s_a_prompt"] / rows[0]["cpu_s_a_prompt"], 3)
        rows[-1]["throughput"] = round(rows[-1]["prompts_per_s"] / rows[0]["prompts_per_s"], 3)
        print(json.dumps(rows[-1]), file=sys.stderr)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for each run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="what llm.model takes")
    parser.add_argument("--documents", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=8000, help="of a document")
    parser.add_argument("--chunks", type=int, default=8, help="of a document")
    parser.add_argument("--answer", type=int, default=50, help="most tokens of a context")
    parser.add_argument("--uncached", type=int, default=4, help="prompts of the run without cache")
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=RUNS)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    rows = measure(options)
    print("".join(f"{name:>16}" for name in rows[0]))
    for row in rows:
        print("".join(f"{value:>16}" for value in row.values()))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
