"""What the commands share: options, JSON, and how a result or a mistake is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

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


def parse_json(text: str | None) -> dict[str, Any] | None:
    """The object of --filter. Raises FilterError where it is none."""
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


def print_json(value: dict[str, Any]) -> None:
    """One JSON object, on a line of standard output."""
    import json

    typer.echo(json.dumps(value, ensure_ascii=False, default=str))


def tell(report: dict[str, Any], show: Callable[[dict[str, Any]], None], *, as_json: bool) -> None:
    """A report as JSON, or as `show` prints it."""
    if as_json:
        print_json(report)
    else:
        show(report)


def complain(message: str) -> None:
    """A line on standard error."""
    typer.echo(f"rag-cluster: {message}", err=True)
