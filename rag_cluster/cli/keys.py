"""The API keys of the query service: `keys add`, `keys list` and `keys remove`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rag_cluster.cli.app import app
from rag_cluster.cli.options import FilterOption, JsonOption, parse_json, tell

keys = typer.Typer(
    no_args_is_help=True,
    help="API keys of the query service, kept as hashes in a file (service.keys).",
)
app.add_typer(keys, name="keys")

FileOption = Annotated[Path, typer.Option("--file", help="The file of keys.")]


@keys.command("add")
def add_key(
    name: str,
    file: FileOption,
    where: FilterOption = None,
    requests_per_minute: Annotated[
        float | None,
        typer.Option("--requests-per-minute", metavar="N", help="How often it may ask."),
    ] = None,
) -> None:
    """Make a key; it is printed this once, and only its hash is kept.

    With --filter the key sees nothing but the documents that the filter lets through.
    """
    from serve import key_writing

    key = key_writing.add_key(file, name, parse_json(where), requests_per_minute)
    typer.echo(f"The key {name!r}, which is shown only now:", err=True)
    typer.echo(key)


@keys.command("list")
def list_keys(file: FileOption, as_json: JsonOption = False) -> None:
    """List the keys by name, with what each may see and how often it may ask."""
    from rag_cluster.show import keys as show
    from serve import key_writing

    tell({"file": str(file), "keys": key_writing.list_keys(file)}, show.listing, as_json=as_json)


@keys.command("remove")
def remove_key(name: str, file: FileOption) -> None:
    """Take a key out; a service that runs refuses it within a second or two."""
    from serve import key_writing

    key_writing.remove_key(file, name)
    typer.echo(f"removed {name!r}", err=True)
