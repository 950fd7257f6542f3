"""The configuration: `config`."""

from __future__ import annotations

import typer

from rag_cluster.cli.app import app
from rag_cluster.cli.options import ConfigOption, SetOption


@app.command("config")
def config_command(config: ConfigOption = None, settings: SetOption = None) -> None:
    """Print the effective configuration, every key with its comment."""
    from rag_cluster import config as configuration

    typer.echo(configuration.render(configuration.load(config, settings or [])), nl=False)
