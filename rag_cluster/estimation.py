"""What an ingest will take, before it runs: counted on a sample of files, scaled by their bytes.

The sample is parsed and chunked here, and some of its chunks are encoded, so the hours of these
stages are measured. What a language model would read and write is counted without asking it; its
hours and costs follow from rates and prices that are given, or that an earlier ingest has measured.
"""

from __future__ import annotations

import json
import os.path
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_cluster.asking import maker
from rag_cluster.chunk.proposition import is_rewritten
from rag_cluster.chunk.stage import Chunker
from rag_cluster.config import Config
from rag_cluster.enrich import Enricher
from rag_cluster.errors import CollectionError, SourceError, UsageError
from rag_cluster.models.encoder import load_encoder
from rag_cluster.models.ports import Encoder
from rag_cluster.models.prompting import Prompting
from rag_cluster.models.sparse import SparseEncoder, load_sparse_encoder
from rag_cluster.parse.sources import list_files
from rag_cluster.parse.stage import Parser
from rag_cluster.schema import indexed_text
from rag_cluster.storage import Collection

BLOCK = 16  # tokens: vLLM caches whole blocks of a prompt's beginning
ENCODED = 64  # chunks whose encoding is measured
SECONDS = 3600
# What the paper of propositions (see `chunk.proposition`) counts in Wikipedia: about six facts of
# eleven words for a passage of 59 words.
TOKENS_BY_FACT = 12
FACTS_LENGTH = 1.2


@dataclass(frozen=True)
class Rates:
    """Of a language model: tokens/s computed of prompts and written, price of a million tokens.

    None where it is not known.
    """

    prompt: float | None = None
    answer: float | None = None
    price_prompt: float | None = None
    price_cached: float | None = None
    price_answer: float | None = None

    def hours(self, computed: float, written: float) -> float | None:
        """The engine's hours for so many tokens."""
        if self.prompt is None:
            return None
        return (computed / self.prompt + written / (self.answer or self.prompt)) / SECONDS

    def cost(self, computed: float, cached: float, written: float) -> float | None:
        """The price of so many tokens. Cached ones cost as much as others if nothing is said."""
        if self.price_prompt is None:
            return None
        cheap = self.price_prompt if self.price_cached is None else self.price_cached
        written_price = self.price_prompt if self.price_answer is None else self.price_answer
        return (computed * self.price_prompt + cached * cheap + written * written_price) / 1_000_000


@dataclass
class Counted:
    """What the sample holds, and the seconds that each stage took for it."""

    size: int = 0
    documents: int = 0
    failed: int = 0
    chunks: int = 0
    facts: int = 0  # expected in place of chunks; they are among the chunks
    embed_tokens: int = 0
    writes: str = "contexts"  # what the prompts ask for
    prompts: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    dropped_tokens: int = 0
    answer_tokens: int = 0
    seconds: dict[str, float] = field(default_factory=dict)


def estimate(
    sources: Sequence[str], config: Config, rates: Rates, *, sample: int = 200, seed: int = 0
) -> dict[str, Any]:
    """What ingesting the sources takes, from `sample` of their files (0: all of them).

    Returns {"files", "bytes", "sample", "documents", "chunks", "tokens", "stages": [...]}, where a
    stage has its rows, tokens, hours of one worker and cost (None where no rate or price is known).
    The tokens of prompts stand with and without a prefix cache. "facts" are those of the chunks
    that a language model would write; how many is a guess. Raises SourceError where there is
    nothing to read, or nothing of the sample can be.
    """
    listing = list_files(sources, config)
    if not listing.num_rows:
        raise SourceError(f"there is no file to read in {', '.join(sources)}")
    rows = range(listing.num_rows)
    if 0 < sample < listing.num_rows:
        rows = sorted(random.Random(seed).sample(rows, sample))  # type: ignore[assignment] # noqa: S311
    counted = count(listing.take(pa.array(list(rows), pa.int64())), config)
    if not counted.documents:
        raise SourceError(f"none of the {len(rows)} files of the sample could be read")
    total = pc.sum(listing["size"]).as_py() or 0
    factor = total / counted.size if counted.size else listing.num_rows / len(rows)
    return {
        "files": listing.num_rows,
        "bytes": total,
        "sample": {"files": len(rows), "bytes": counted.size, "failed": counted.failed},
        "documents": round(counted.documents * factor),
        "chunks": round(counted.chunks * factor),
        "facts": round(counted.facts * factor),
        "tokens": {
            "embed": round(counted.embed_tokens * factor),
            "prompts_without_cache": round(counted.prompt_tokens * factor),
            "prompts_with_cache": round((counted.prompt_tokens - counted.cached_tokens) * factor),
            "answers_at_most": round(counted.answer_tokens * factor),
            "dropped": round(counted.dropped_tokens * factor),
        },
        "stages": stages(counted, factor, rates),
    }


def stages(counted: Counted, factor: float, rates: Rates) -> list[dict[str, Any]]:
    """The stages with what each of them has to do and takes."""
    made = [
        _stage(name, rows * factor, tokens * factor, counted.seconds[name] * factor / SECONDS)
        for name, rows, tokens in (
            ("parse", counted.documents, 0),
            ("chunk", counted.documents, 0),
            ("embed", counted.chunks, counted.embed_tokens),
            ("sparse", counted.chunks, counted.embed_tokens),
        )
        if name in counted.seconds
    ]
    if counted.prompts:
        prompt, answer = counted.prompt_tokens * factor, counted.answer_tokens * factor
        cached = counted.cached_tokens * factor
        for name, held in (("with cache", cached), ("without cache", 0.0)):
            made.append(
                _stage(
                    f"{counted.writes}, {name}", counted.prompts * factor, prompt - held + answer,
                    rates.hours(prompt - held, answer), rates.cost(prompt - held, held, answer),
                )
            )  # fmt: skip
    return made


def _stage(
    name: str, rows: float, tokens: float, hours: float | None, cost: float | None = None
) -> dict[str, Any]:
    return {
        "stage": name,
        "rows": round(rows),
        "tokens": round(tokens),
        "hours": None if hours is None else round(hours, 4),
        "cost": None if cost is None else round(cost, 2),
    }


def count(files: pa.Table, config: Config) -> Counted:
    """Parses, chunks and counts some files (FILE rows), and encodes some of the chunks."""
    made = Counted(size=pc.sum(files["size"]).as_py() or 0)
    start = time.monotonic()
    parser = Parser(config)
    try:
        documents = parser(files)
    finally:
        parser.close()
    made.seconds["parse"] = time.monotonic() - start
    made.failed = pc.sum(pc.equal(documents["status"], "failed")).as_py() or 0
    made.documents = documents.num_rows - made.failed
    start = time.monotonic()
    chunks = Enricher(config)(Chunker(config)(documents))
    made.seconds["chunk"] = time.monotonic() - start
    chunks = chunks.filter(chunks["searchable"])
    made.chunks = chunks.num_rows
    made.embed_tokens = pc.sum(chunks["tokens"]).as_py() or 0
    made.seconds["embed"] = _encoding(chunks, load_encoder(config.embed))
    if config.sparse.model is not None:
        made.seconds["sparse"] = _encoding(chunks, load_sparse_encoder(config.sparse))
    if config.writes is not None:
        made.writes = config.writes
        _count_prompts(documents, chunks, config, made)
    if config.writes == "facts":
        _expect_facts(chunks, config, made)
    return made


def _expect_facts(chunks: pa.Table, config: Config, made: Counted) -> None:
    """Puts facts in the place of the chunks that are rewritten, as many as are to be expected."""
    rows = [row for row in chunks.to_pylist() if is_rewritten(row)]
    made.facts = sum(max(1, round(row["tokens"] / TOKENS_BY_FACT)) for row in rows)
    before = made.embed_tokens + made.chunks * config.enrich.tokens
    made.chunks += made.facts - len(rows)
    made.embed_tokens += round(sum(row["tokens"] for row in rows) * (FACTS_LENGTH - 1))
    more = (made.embed_tokens + made.chunks * config.enrich.tokens) / max(1, before)
    for stage in made.seconds.keys() & {"embed", "sparse"}:
        made.seconds[stage] *= more


def _encoding(chunks: pa.Table, encoder: Encoder | SparseEncoder) -> float:
    """The seconds that encoding the chunks takes, measured with some of them."""
    some = random.Random(0).sample(range(chunks.num_rows), min(ENCODED, chunks.num_rows))  # noqa: S311
    if not some:
        return 0.0
    rows = chunks.take(pa.array(some, pa.int64())).select(["context", "header", "text"])
    texts = [indexed_text(**row) for row in rows.to_pylist()]
    encoder.encode(texts[:1])  # the first call is slower
    start = time.monotonic()
    encoder.encode(texts)
    seconds = time.monotonic() - start
    return float(seconds * chunks.num_rows / len(texts))


def _count_prompts(documents: pa.Table, chunks: pa.Table, config: Config, made: Counted) -> None:
    prompting = Prompting(config)
    make = maker(config, prompting)
    by_document = defaultdict(list)
    for row in chunks.to_pylist():
        by_document[row["doc_id"]].append(row)
    for document in documents.to_pylist():
        before = ""
        for asked in make(document, by_document.get(document["doc_id"], [])):
            text = "\n\n".join(message.content for message in asked.request.messages)
            tokens = prompting.length(asked.request.messages)
            shared = _shared(before, text) / max(1, len(text))
            made.prompts += 1
            made.prompt_tokens += tokens
            made.cached_tokens += int(tokens * shared) // BLOCK * BLOCK
            made.dropped_tokens += asked.dropped
            made.answer_tokens += asked.request.max_tokens
            before = text


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    return len(os.path.commonprefix([one, other]))  # noqa: RUF071 - that is what it does


def measured(path: str | Path, rates: Rates) -> Rates:
    """The rates, with those that the last ingest of a collection has measured where none is given.

    Raises UsageError where that ingest asked no language model.
    """
    opened = Collection.open(path)
    try:
        report = json.loads((opened.folder / "report.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CollectionError(f"{opened.folder} has no report that can be read: {error}") from None
    llm = report.get("llm")
    if not llm or not llm["answers"]:
        raise UsageError(f"the last ingest of {path} asked no language model: give rates instead")
    # Reading and writing go side by side: all tokens that were computed share the time.
    rate = (llm["computed_tokens"] + llm["completion_tokens"]) / max(llm["seconds"], 1e-9)
    return Rates(
        rates.prompt or rate, rates.answer or rates.prompt or rate, rates.price_prompt,
        rates.price_cached, rates.price_answer,
    )  # fmt: skip
