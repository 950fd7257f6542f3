"""Making a collection: `ingest`, and `estimate` of what that takes."""

from __future__ import annotations

from typing import Annotated, Any

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
def ingest(
    collection: CollectionOption,
    source: Annotated[
        list[str] | None, typer.Argument(help="Files, folders, s3://BUCKET/PREFIX.")
    ] = None,
    sync: Annotated[
        bool, typer.Option("--sync", help="Remove every document that is not in SOURCE.")
    ] = False,
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Read failed files again; without SOURCE only them."),
    ] = False,
    config: ConfigOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a collection to what the sources hold: parse, chunk, embed and index what changed.

    Without --config the settings that made the collection stay, and --set changes some of them.
    """
    from rag_cluster import config as configuration
    from rag_cluster.errors import UsageError
    from rag_cluster.show import ingest as show

    if not source and (sync or not retry_failed):
        raise UsageError("name the files and folders to ingest: rag-cluster ingest SOURCE...")
    kept = None if config is not None else kept_config(collection)
    effective = configuration.load(config, settings or [], base=kept)
    with show.progress() as on_progress:
        from rag_cluster import pipeline

        summary = pipeline.ingest(
            source or [],
            collection,
            effective,
            sync=sync,
            retry_failed=retry_failed,
            on_progress=on_progress,
        )
    tell(summary, show.summary, as_json=as_json)
    counts = summary["this_run"]
    failed = counts["failed"] / max(1, sum(counts.values()))
    if failed > effective.max_failed_fraction:
        complain(
            f"{counts['failed']} of {sum(counts.values())} documents failed, more than "
            f"max_failed_fraction ({effective.max_failed_fraction:g}) allows; the rest is "
            f"published. See: rag-cluster inspect --collection {collection} --failures"
        )
        raise typer.Exit(3)


@app.command()
def estimate(
    source: Annotated[list[str], typer.Argument(help="Files, folders, s3://BUCKET/PREFIX.")],
    config: ConfigOption = None,
    settings: SetOption = None,
    sample: Annotated[
        int, typer.Option("--sample", min=0, help="Files to read for it; 0 = all.")
    ] = 200,
    measured: Annotated[
        str | None,
        typer.Option("--measured", metavar="COLLECTION", help="Take its last ingest's tokens/s."),
    ] = None,
    prompt_rate: Annotated[
        float | None, typer.Option("--prompt-rate", help="Tokens/s of prompts computed.")
    ] = None,
    answer_rate: Annotated[
        float | None, typer.Option("--answer-rate", help="Tokens/s written; else as prompts.")
    ] = None,
    price_prompt: Annotated[
        float | None, typer.Option("--price-prompt", help="Of a million tokens of prompts.")
    ] = None,
    price_cached: Annotated[
        float | None, typer.Option("--price-cached", help="Of a million that were cached.")
    ] = None,
    price_answer: Annotated[
        float | None, typer.Option("--price-answer", help="Of a million tokens written.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """What an ingest will take: documents, chunks, tokens, and hours and cost by stage."""
    from rag_cluster import config as configuration
    from rag_cluster import estimation, generation
    from rag_cluster.show import estimation as show

    effective = configuration.load(config, settings or [])
    generation.check(effective.llm, installed=False)
    rates = estimation.Rates(prompt_rate, answer_rate, price_prompt, price_cached, price_answer)
    if measured is not None:
        rates = estimation.measured(measured, rates)
    tell(
        estimation.estimate(source, effective, rates, sample=sample), show.estimate,
        as_json=as_json,
    )  # fmt: skip


def kept_config(collection: str) -> dict[str, Any] | None:
    """The settings that made a collection, without those of the machine; None if there is none.

    Raises CollectionError where another version of rag-cluster, with other settings, made it.
    """
    from rag_cluster.storage import Collection, current_version, place

    if not current_version(place(collection)):
        return None
    made = Collection.open(collection, verify=False).config.stored()
    return {name: section for name, section in made.items() if name != "resources"}
