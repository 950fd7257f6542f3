"""Making questions: from a collection to the two files that `evaluate` reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rag_cluster.answer.opening import query_config
from rag_cluster.config import Config
from rag_cluster.errors import ConfigError, ServiceError, UsageError
from rag_cluster.generated import describe
from rag_cluster.models.llm import load_llm
from rag_cluster.models.ports import LLM
from rag_cluster.models.prompting import Prompting
from rag_cluster.questions.frame import Chunks, read_frame
from rag_cluster.questions.output import write
from rag_cluster.questions.partial import Partial
from rag_cluster.questions.questioner import Questioner
from rag_cluster.questions.run import Run
from rag_cluster.questions.state import Snapshot, Wanted
from rag_cluster.storage import Collection

# One request that fails is a chunk skipped; so many in a row, or more, are a server that is down.
LEAST_FAILURES = 3


async def make_questions(
    collection: str | Path,
    out: Path,
    wanted: Wanted,
    *,
    config: Path | None = None,
    settings: Sequence[str] = (),
    llm: LLM | None = None,
    on_progress: Callable[[Snapshot], None] | None = None,
) -> dict[str, Any]:
    """Writes questions about a collection's published version to `out`, and their qrels.

    The language model is `llm`, else that of the configuration. Returns the counts. Raises
    UsageError where `out` is there already or cannot be written, ConfigError without a language
    model, ServiceError where its server refuses or fails; what it answered is kept.
    """
    qrels = wanted.qrels or out.with_suffix(".qrels.tsv")
    partial = out.with_name(f"{out.name}.partial")
    _check_places(out, qrels, partial)
    opened = Collection.open(collection)
    effective = query_config(opened, config, settings)
    llm, model = _language_model(llm, effective)
    frame = read_frame(
        opened, seed=wanted.seed, by=wanted.by, min_words=wanted.min_words,
        roles=effective.retrieve.exclude_roles,
    )  # fmt: skip
    questioner = Questioner(llm, Prompting(effective), effective)
    with Partial(partial) as known:
        at_once = 1 if effective.llm.engine == "transformers" else effective.llm.concurrency
        run = Run(
            frame, Chunks(opened), questioner, known, wanted, model=model, on_progress=on_progress,
            at_once=at_once, most_failures=max(LEAST_FAILURES, at_once),
        )  # fmt: skip
        try:
            await run.go()
        except ServiceError as error:
            kept = f"{len(known):,} chunks were answered, which {known.path} keeps"
            raise type(error)(f"{error}. {kept}: the same command goes on from there") from error
        if run.kept:
            write(opened, run.kept, out, qrels, wanted.by)
            known.remove()
    return {
        "collection": str(opened.path),
        "version": opened.version,
        "out": str(out),
        "qrels": str(qrels),
        "model": model["model"],
        **run.summary(),
    }


def _check_places(out: Path, qrels: Path, partial: Path) -> None:
    for path in (out, qrels):
        if "://" in str(path) or not path.parent.is_dir():
            raise UsageError(f"{path}: its folder is not there, or not on this machine's disk")
        if path.exists() and not partial.exists():
            raise UsageError(f"{path} is there already: remove it, or name another file")
    if out == qrels:
        raise UsageError(f"{out} cannot hold the questions and the qrels: name another --qrels")


def _language_model(llm: LLM | None, config: Config) -> tuple[LLM, dict[str, Any]]:
    """The model that is given, else the configured one; and what names it and its weights."""
    if llm is not None:
        return llm, {"model": llm.name, "revision": ""}
    if config.llm.engine == "vllm":
        raise ConfigError(
            "llm.engine is vllm, which runs in batches at ingest. For questions start "
            f"'vllm serve {config.llm.model}', and add --set llm.engine=openai "
            "--set llm.base_url=http://localhost:8000/v1"
        )
    return load_llm(config.llm), describe(config)
