"""Reading the query log of a service: `logs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_cluster.cli.app import app
from rag_cluster.cli.options import complain, print_json, tell


@app.command()
def logs(
    folder: Path,
    since: Annotated[
        str | None, typer.Option("--since", help="A time (ISO 8601), or how long ago: 30m, 2h, 7d.")
    ] = None,
    route: Annotated[str | None, typer.Option("--route", help="search, ask or chat.")] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="Such as 504, a class such as 5xx, or error.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Name of an API key.")] = None,
    slower_than: Annotated[
        float | None, typer.Option("--slower-than", metavar="MS", help="Milliseconds.")
    ] = None,
    empty: Annotated[bool, typer.Option("--empty", help="Queries that found nothing.")] = False,
    summary: Annotated[
        bool, typer.Option("--summary", help="Counts, and percentiles of each stage.")
    ] = False,
    to_queries: Annotated[
        Path | None,
        typer.Option(
            "--to-queries", metavar="DIR", help="Write an evaluation set; needs service.log.text."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The lines as JSON; one object with the other two.")
    ] = False,
) -> None:
    """Read the query log of a service: filter it, sum it up, or make an evaluation set of it."""
    from datetime import datetime

    from rag_cluster.errors import UsageError
    from rag_cluster.querylog import Log, Selection
    from rag_cluster.querylog.selection import moment
    from rag_cluster.show import logs as show

    if summary and to_queries is not None:
        raise UsageError("--summary and --to-queries: ask for one at a time")
    start = None if since is None else moment(since, datetime.now().astimezone())
    selection = Selection(start, route, status, key, slower_than, empty)
    log = Log(folder)
    lines = ((time, line) for time, line in log if selection.takes(time, line))
    if summary:
        from rag_cluster.querylog import summary as figures

        tell(figures.summary(lines) | {"damaged": log.damaged}, show.summary, as_json=as_json)
    elif to_queries is not None:
        from rag_cluster.querylog import silver

        tell(silver.to_queries(lines, to_queries), show.evaluation_set, as_json=as_json)
    else:
        for time, line in lines:
            if as_json:
                print_json(line)
            else:
                typer.echo(show.line(time, line))
    if log.damaged and not (summary and as_json):
        complain(f"{log.damaged:,} damaged lines were skipped")
