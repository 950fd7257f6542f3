"""What a run leaves of Ray: its notices on standard error, and all CPUs to the next run."""

from __future__ import annotations

import _thread
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import ray
from ray._private.state import actors
from small_corpus import FAKE

from rag_cluster import config, pipeline
from rag_cluster.errors import IngestError

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


def _living(name: str) -> int:
    """How many actors of a class, or of one that begins so, live."""
    states = [a["State"] for a in actors().values() if a["ActorClassName"].startswith(name)]
    return states.count("ALIVE")


def _free(counters: int, seconds: float = 30) -> bool:
    """Whether no worker of a dataset holds a CPU any more, nor counts, within some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not _living("MapWorker") and ray.available_resources().get("CPU") == 2:
            return _living("_Counter") == counters
        time.sleep(0.1)
    return False


def test_a_run_that_fails_leaves_all_cpus_to_the_next(tmp_path: Path, ray_session: None) -> None:
    (tmp_path / "one.txt").write_text("$$" + " + ".join(f"x_{i}" for i in range(300)) + "$$")
    made = config.load(None, [*FAKE, "embed.truncation=fail"])
    counters = _living("_Counter")
    with pytest.raises(IngestError) as kept:
        pipeline.ingest([str(tmp_path / "one.txt")], tmp_path / "c", made)
    assert _free(counters)
    assert "embed.truncation" in str(kept.value)


def test_a_run_that_is_interrupted_leaves_all_cpus(tmp_path: Path, ray_session: None) -> None:
    (tmp_path / "source").mkdir()
    for i in range(1000):
        (tmp_path / "source" / f"{i}.txt").write_text(f"Sentence {i} of a file. " * 300)
    counters = _living("_Counter")
    assert _free(counters)

    def interrupt() -> None:
        while not _living("MapWorker"):
            time.sleep(0.05)
        time.sleep(1)
        _thread.interrupt_main()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt) as kept:
        pipeline.ingest([str(tmp_path / "source")], tmp_path / "c", config.load(None, [*FAKE]))
    assert _free(counters)
    del kept
