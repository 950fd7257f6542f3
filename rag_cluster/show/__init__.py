"""What a person reads: tables and progress, without colour in a pipe."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def console(*, stderr: bool = False) -> Console:
    """A console; in a pipe it writes plain text, wide enough that nothing is cut."""
    probe = Console(stderr=stderr, emoji=False, markup=False)
    if probe.is_terminal:
        return probe
    return Console(stderr=stderr, width=160, no_color=True, emoji=False, markup=False)


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; columns that begin with `>` are right-aligned."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left")
    return made
