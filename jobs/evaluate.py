"""Evaluation as a job: `ray job submit -- python -m jobs.evaluate --collection PATH ...`.

The arguments, output and exit codes are those of `rag-cluster evaluate`.
"""

import sys

from rag_cluster.cli import run

if __name__ == "__main__":
    sys.exit(run(["evaluate", *sys.argv[1:]]))
