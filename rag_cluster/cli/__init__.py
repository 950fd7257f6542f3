"""The command line. Names, options, JSON keys and exit codes here are a contract.

Exit codes: 0 done; 1 the work failed; 2 wrong usage or configuration; 3 published, but more
documents failed than `max_failed_fraction` allows; 130 interrupted.
"""

from __future__ import annotations

import sys

# Importing the modules is what adds their commands, in the order of `--help`.
# isort: off
from rag_cluster.cli import ingest, query, questions, serve, keys, logs, collection, settings  # noqa: F401

# isort: on
from rag_cluster.cli.app import app
from rag_cluster.cli.options import complain
from rag_cluster.errors import RagClusterError

__all__ = ["app", "main", "run"]

INTERRUPTED = 130


def run(arguments: list[str] | None = None) -> int:
    """Runs the command line and returns its exit code; a person's mistake becomes one line."""
    try:
        app(arguments, prog_name="rag-cluster")
    except RagClusterError as error:
        complain(str(error))
        return error.exit_code
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
        if code == INTERRUPTED:
            complain(
                "interrupted; the published version of the collection is as it was. The same "
                "command goes on from what was finished"
            )
        return code
    return 0


def main() -> None:
    """The console script."""
    sys.exit(run())
