"""Asking a collection: `search`, `ask`, and `evaluate` over the same path."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_cluster.cli.app import app
from rag_cluster.cli.options import (
    CollectionOption,
    ConfigOption,
    FilterOption,
    JsonOption,
    SetOption,
    parse_json,
    print_json,
)


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
    result = asyncio.run(engine.search(query, top_k=top_k, where=parse_json(where)))
    if as_json:
        print_json(result.to_json())
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
    answer = asyncio.run(engine.ask(question, where=parse_json(where)))
    if as_json:
        print_json(answer.to_json())
    else:
        show.answer(answer)


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
        print_json(result.to_json())
    else:
        show.evaluation(result)
