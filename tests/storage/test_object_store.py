"""From sources in an object store to a collection in one, over real HTTP and a Ray session."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rag_cluster.answer.query import Engine
from rag_cluster.cli import run
from rag_cluster.storage import Collection, Writer, place, write_file

# In a process of its own: the workers of a Ray session have the environment that it began with.
INGEST = """
import logging, sys
import ray
from small_corpus import FAKE
from rag_cluster import config, pipeline
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
first, second, collection = sys.argv[1:]
settings = config.load(None, [*FAKE, "index.shards=2"])
pipeline.ingest([first], collection, settings)
pipeline.ingest([first, second], collection, settings)
ray.shutdown()
"""


def test_from_a_bucket_to_a_bucket(
    bucket: str, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    docs, more, home = f"{bucket}/docs", f"{bucket}/more/larks ü.txt", f"{bucket}/made/c"
    write_file(place(docs), lambda path: shutil.copytree(corpus, path))
    write_file(place(more), lambda path: path.write_text("Larks sing at dawn."))
    done = subprocess.run(
        [sys.executable, "-c", INGEST, docs, more, home],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr

    to = ["--collection", home]
    opened = Collection.open(home)
    assert opened.version == "v000002"
    assert opened.manifest["documents"] == {"ok": 24, "empty": 0, "failed": 1}
    assert best(home, "when do roses bloom") == f"{docs}/garden.txt"
    assert best(home, "larks sing") == more
    assert run(["inspect", *to, "--audit"]) == 0
    assert run(["inspect", *to, "--failures"]) == 0
    assert f"{docs}/broken.pdf" in capsys.readouterr().out

    assert run(["rollback", "v000001", *to]) == 0
    assert best(home, "larks sing") != more
    assert run(["prune", "--keep", "1", *to]) == 0
    capsys.readouterr()
    assert run(["versions", *to, "--json"]) == 0
    versions = json.loads(capsys.readouterr().out)["versions"]
    assert [(row["version"], row["current"]) for row in versions] == [
        ("v000001", True), ("v000002", False)
    ]  # fmt: skip
    with Writer(home):
        assert run(["rollback", "v000002", *to]) == 2
    assert f"(process {os.getpid()}, since " in capsys.readouterr().err


def best(home: str, query: str) -> str:
    return asyncio.run(Engine.open(home).search(query)).hits[0].uri
