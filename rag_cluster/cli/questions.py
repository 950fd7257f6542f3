"""Making questions of a collection: `questions`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_cluster.cli.app import app
from rag_cluster.cli.options import (
    CollectionOption,
    ConfigOption,
    JsonOption,
    SetOption,
    complain,
    tell,
)


@app.command()
def questions(
    collection: CollectionOption,
    out: Annotated[Path, typer.Option("--out", help="Write the questions here (JSONL).")],
    qrels: Annotated[
        Path | None, typer.Option("--qrels", help="And their qrels here; else beside --out.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, help="Questions to make.")] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the sample of chunks.")] = 1,
    by: Annotated[
        str | None, typer.Option("--by", metavar="FIELD", help="Equally many of each value.")
    ] = None,
    min_words: Annotated[
        int, typer.Option("--min-words", min=1, help="Different content words of a chunk.")
    ] = 12,
    config: ConfigOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have the language model of `llm` ask questions of sampled chunks, for `evaluate`.

    An interrupted run goes on where it was, with the same command.
    """
    import asyncio

    from rag_cluster.questions import Wanted, make_questions
    from rag_cluster.show import questions as show

    wanted = Wanted(count, seed, by, min_words, qrels)
    with show.progress() as on_progress:
        report = asyncio.run(
            make_questions(
                collection, out, wanted, config=config, settings=settings or [],
                on_progress=on_progress,
            )
        )  # fmt: skip
    tell(report, show.summary, as_json=as_json)
    if not report["questions"]:
        complain(f"no question was made, and {out} was not written: {report['ended']}")
        raise typer.Exit(1)
