"""Ingest as a job: `ray job submit -- python -m jobs.ingest SOURCE... --collection PATH`.

The arguments, output and exit codes are those of `rag-cluster ingest`.
"""

import sys

from rag_cluster.cli import run

if __name__ == "__main__":
    sys.exit(run(["ingest", *sys.argv[1:]]))
