"""What Ray has to say at any time does not get between the results on standard output."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import time
from ray._private import utils, worker
from rag_cluster import cluster, config
with cluster.joined(config.load(None, []), cpus=1):
    told = worker.global_worker.gcs_client
    utils.publish_error_to_driver("test", "a notice of Ray's", told)
    time.sleep(2)
print("{}")
"""


def test_a_notice_of_ray_goes_to_standard_error() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=180, check=False
    )
    assert (done.returncode, done.stdout) == (0, "{}\n"), done.stderr
    assert "a notice of Ray's" in done.stderr
