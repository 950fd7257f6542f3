"""The program that the commands belong to."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    name="rag-cluster",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="From a folder of files to a cited answer, as a batch pipeline on a Ray cluster.",
)


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
