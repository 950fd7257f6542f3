"""The command line. Names, options, JSON keys and exit codes here are a contract.

Exit codes: 0 done; 1 the work failed; 2 wrong usage or configuration; 3 published, but more
documents failed than `max_failed_fraction` allows; 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from rag_cluster.errors import RagClusterError

INTERRUPTED = 130

app = typer.Typer(
    name="rag-cluster",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="From a folder of files to a cited answer, as a batch pipeline on a Ray cluster.",
)

CollectionOption = Annotated[
    str, typer.Option("--collection", help="Folder of the collection, or s3://BUCKET/PREFIX.")
]
ConfigOption = Annotated[Path | None, typer.Option("--config", help="YAML configuration.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY.PATH=VALUE", help="One setting (a YAML value); repeatable."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
FilterOption = Annotated[
    str | None,
    typer.Option("--filter", metavar="JSON", help='Such as \'{"year": {"gte": 2020}}\'.'),
]


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer's callback
    if wanted:
        from importlib import metadata

        typer.echo(f"rag-cluster {metadata.version('rag-cluster')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Version.")
    ] = False,
) -> None:
    """From a folder of files to a cited answer, as a batch pipeline on a Ray cluster."""
    del version  # it was printed


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
    kept = None if config is not None else _kept_config(collection)
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
    _tell(summary, show.summary, as_json=as_json)
    counts = summary["this_run"]
    failed = counts["failed"] / max(1, sum(counts.values()))
    if failed > effective.max_failed_fraction:
        _complain(
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
    _tell(
        estimation.estimate(source, effective, rates, sample=sample), show.estimate,
        as_json=as_json,
    )  # fmt: skip


@app.command()
def search(
    query: str,
    collection: CollectionOption,
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="Hits to return.")] = None,
    where: FilterOption = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Find the passages that fit a query."""
    import asyncio

    from rag_cluster.answer.query import Engine
    from rag_cluster.show import query as show

    engine = Engine.open(collection, config, settings or [])
    result = asyncio.run(engine.search(query, top_k=top_k, where=_parse_json(where)))
    if as_json:
        _print_json(result.to_json())
    else:
        show.hits(result)


@app.command()
def ask(
    question: str,
    collection: CollectionOption,
    where: FilterOption = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Answer a question from the collection, with citations."""
    import asyncio

    from rag_cluster.answer.query import Engine
    from rag_cluster.show import query as show

    engine = Engine.open(collection, config, settings or [])
    answer = asyncio.run(engine.ask(question, where=_parse_json(where)))
    if as_json:
        _print_json(answer.to_json())
    else:
        show.answer(answer)


@app.command()
def inspect(
    collection: CollectionOption,
    failures: Annotated[bool, typer.Option("--failures", help="What failed, and why.")] = False,
    document: Annotated[
        str | None, typer.Option("--document", metavar="URI", help="A uri, id or file's name.")
    ] = None,
    chunks: Annotated[bool, typer.Option("--chunks", help="The chunks (of a document).")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Prove spans, ids, parents, order and checksums.")
    ] = False,
    duplicates: Annotated[
        bool, typer.Option("--duplicates", help="Documents that nearly equal others.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="What its ingest took, and what more would take.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Look into a collection."""
    from rag_cluster import inspection
    from rag_cluster.errors import UsageError
    from rag_cluster.show import inspection as show
    from rag_cluster.storage import Collection

    asked = {"--audit": audit, "--report": report, "--failures": failures,
             "--document": document is not None}  # fmt: skip
    if sum(asked.values()) > 1:
        both = " and ".join(name for name, given in asked.items() if given)
        raise UsageError(f"{both}: ask for one at a time")
    opened = Collection.open(collection, verify=not audit)
    if audit:
        content = inspection.audit(opened)
    elif report:
        content = inspection.last_report(opened)
    elif failures:
        content = inspection.failures(opened)
    elif duplicates:
        content = inspection.duplicates(opened)
    elif document is not None:
        content = inspection.document(opened, document, with_chunks=chunks)
    elif chunks:
        content = inspection.chunks(opened)
    else:
        content = inspection.overview(opened)
    _tell(content, show.report, as_json=as_json)
    if audit and content["problems"]:
        raise typer.Exit(1)


@app.command()
def versions(collection: CollectionOption, as_json: JsonOption = False) -> None:
    """List the versions of a collection."""
    from rag_cluster import versions as upkeep
    from rag_cluster.show import versions as show

    report = upkeep.listing(collection)
    _tell(report, show.listing, as_json=as_json)


@app.command()
def rollback(version: str, collection: CollectionOption, as_json: JsonOption = False) -> None:
    """Make another version of a collection the current one."""
    from rag_cluster import versions as upkeep
    from rag_cluster.show import versions as show

    report = upkeep.rollback(collection, version)
    _tell(report, show.rolled_back, as_json=as_json)


@app.command()
def prune(
    collection: CollectionOption,
    keep: Annotated[int, typer.Option("--keep", min=1, help="The newest versions to keep.")],
    as_json: JsonOption = False,
) -> None:
    """Delete old versions of a collection; the current one always stays."""
    from rag_cluster import versions as upkeep
    from rag_cluster.show import versions as show

    report = upkeep.prune(collection, keep)
    _tell(report, show.pruned, as_json=as_json)


@app.command()
def delete(
    collection: CollectionOption,
    document: Annotated[
        list[str] | None,
        typer.Option("--document", metavar="URI", help="A uri, id or file's name; repeatable."),
    ] = None,
    where: FilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a version without some documents, and prove that nothing of them is left in it."""
    from rag_cluster import deletion
    from rag_cluster.show import versions as show

    report = deletion.delete(collection, document or [], _parse_json(where))
    _tell(report, show.deletion, as_json=as_json)


@app.command()
def evaluate(
    collection: CollectionOption,
    queries: Annotated[Path, typer.Option("--queries", help="BEIR queries.jsonl.")],
    qrels: Annotated[Path, typer.Option("--qrels", help="BEIR qrels (a page column is used).")],
    metrics: Annotated[
        str, typer.Option("--metrics", help="ir_measures names, separated by spaces.")
    ] = "nDCG@10 R@100 RR@10 Success@10",
    config: ConfigOption = None,
    settings: SetOption = None,
    run: Annotated[Path | None, typer.Option("--run", help="Write a TREC run here.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure retrieval with queries and relevance judgements, over the query path itself."""
    import asyncio

    from rag_cluster.evaluate.collection import evaluate_collection
    from rag_cluster.show import query as show

    result = asyncio.run(
        evaluate_collection(
            collection, queries, qrels, metrics, config=config, settings=settings or [], run=run
        )
    )
    if as_json:
        _print_json(result.to_json())
    else:
        show.evaluation(result)


@app.command("config")
def config_command(config: ConfigOption = None, settings: SetOption = None) -> None:
    """Print the effective configuration, every key with its comment."""
    from rag_cluster import config as configuration

    typer.echo(configuration.render(configuration.load(config, settings or [])), nl=False)


def _kept_config(collection: str) -> dict[str, Any] | None:
    """The settings that made a collection, without those of the machine; None if there is none."""
    from rag_cluster.storage import Collection, current_version, place

    if not current_version(place(collection)):
        return None
    made: dict[str, Any] = dict(Collection.open(collection, verify=False).manifest["config"])
    return {name: section for name, section in made.items() if name != "resources"}


def _parse_json(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    import json

    from rag_cluster.errors import FilterError

    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FilterError(
            f'--filter is not JSON ({error}): write an object such as {{"year": 2020}}'
        ) from None
    if not isinstance(tree, dict):
        raise FilterError(f'--filter must be a JSON object such as {{"year": 2020}}, not {text!r}')
    return tree


def _print_json(value: dict[str, Any]) -> None:
    import json

    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


def _tell(report: dict[str, Any], show: Callable[[dict[str, Any]], None], *, as_json: bool) -> None:
    if as_json:
        _print_json(report)
    else:
        show(report)


def _complain(message: str) -> None:
    typer.echo(f"rag-cluster: {message}", err=True)


def run(arguments: list[str] | None = None) -> int:
    """Runs the command line and returns its exit code; a person's mistake becomes one line."""
    try:
        app(arguments, prog_name="rag-cluster")
    except RagClusterError as error:
        _complain(str(error))
        return error.exit_code
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        if code == INTERRUPTED:
            _complain(
                "interrupted; the published version of the collection is as it was. The same "
                "command goes on from what was finished"
            )
        return code
    return 0


def main() -> None:
    """The console script."""
    sys.exit(run())
