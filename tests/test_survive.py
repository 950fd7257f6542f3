"""Killed drivers, workers and nodes: the run goes on, and gives what an undisturbed one gives."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
from ray.cluster_utils import Cluster
from small_corpus import FAKE

from rag_cluster.storage import Collection

COMMAND = Path(sys.executable).with_name("rag-cluster")
SETTINGS = (*FAKE, "index.shards=2", "resources.encoders=2", "resources.encode_batch=8",
            "resources.parse_batch=2")  # fmt: skip
FILES = 120
NODE = {"num_cpus": 2, "object_store_memory": 80 * 2**20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three nodes; the first one has the driver."""
    made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    for _ in range(2):
        made.add_node(**NODE)
    yield made
    made.shutdown()


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("survive") / "source"
    folder.mkdir()
    words = random.Random(3)
    for i in range(FILES):
        lines = [f"Note {i}, line {n}: {words.random()}" for n in range(20)]
        (folder / f"{i:03}.txt").write_text("\n\n".join(lines))
    return folder


def start(cluster: Cluster, source: Path, path: Path) -> subprocess.Popen[str]:
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    return subprocess.Popen(
        [COMMAND, "ingest", str(source), "--collection", str(path), "--json", *settings],
        env=os.environ | {"RAY_ADDRESS": cluster.address},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    summary: dict[str, Any] = json.loads(out.splitlines()[-1])
    return summary


def wait(process: subprocess.Popen[str], reached: Callable[[], bool]) -> None:
    for _ in range(6000):
        if reached():
            return
        if process.poll() is not None:
            pytest.fail(f"it ended before the moment came: {process.communicate()[1]}")
        time.sleep(0.02)
    pytest.fail("the moment never came")


def parts(path: Path, kind: str) -> list[Path]:
    return list(path.glob(f"work/*/{kind}/*/[!.]*.parquet"))


def state(path: Path) -> list[Any]:
    opened = Collection.open(path)
    assert list(opened.problems()) == []
    tables = [opened.chunks().table.sort_by("chunk_id")]
    tables += [
        pq.read_table(opened.shard_path(kind, shard))
        for kind in ("chunks", "vectors")
        for shard in range(opened.shards)
    ]
    return tables


@pytest.fixture(scope="module")
def undisturbed(
    cluster: Cluster, source: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Any]:
    path = tmp_path_factory.mktemp("undisturbed") / "c"
    summary = finish(start(cluster, source, path))
    assert summary["documents"] == {"ok": FILES, "empty": 0, "failed": 0}
    return state(path)


# The moment is so many parts of a kind; seeded, so that it is the same each time.
MOMENTS = random.Random(7)


@pytest.mark.parametrize(
    ("kind", "count"),
    [("documents", MOMENTS.randint(1, 10)), ("chunks", MOMENTS.randint(1, 10))],
)
def test_a_killed_driver_is_gone_on_with(
    cluster: Cluster, source: Path, tmp_path: Path, undisturbed: list[Any], kind: str, count: int
) -> None:
    path = tmp_path / "c"
    first = start(cluster, source, path)
    wait(first, lambda: len(parts(path, kind)) >= count)
    first.kill()
    first.communicate()
    read = {
        uri
        for part in parts(path, "documents")
        for uri in pq.read_table(part, columns=["uri"])["uri"].to_pylist()
    }
    chunked = [
        row
        for part in parts(path, "chunks")
        for row in pq.read_table(part, columns=["doc_id", "siblings"]).to_pylist()
    ]
    whole = {
        row["doc_id"]
        for row in chunked
        if sum(r["doc_id"] == row["doc_id"] for r in chunked) >= row["siblings"]
    }
    assert read
    summary = finish(start(cluster, source, path))
    assert summary["work"]["files"] == summary["work"]["documents"] == FILES - len(whole)
    assert state(path) == undisturbed
    assert list((path / "work").iterdir()) == []


def test_a_killed_worker_costs_its_batches(
    cluster: Cluster, source: Path, tmp_path: Path, undisturbed: list[Any]
) -> None:
    path = tmp_path / "c"
    process = start(cluster, source, path)
    wait(process, lambda: len(parts(path, "chunks")) >= 2)
    workers = [p for p in psutil.process_iter(["cmdline"])
               if "MapWorker" in " ".join(p.info["cmdline"] or [])]  # fmt: skip
    for worker in workers[:2]:
        worker.send_signal(signal.SIGKILL)
    finish(process)
    assert state(path) == undisturbed


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(lambda path: len(parts(path, "documents")) >= 3, id="parse"),
        pytest.param(lambda path: len(parts(path, "chunks")) >= 5, id="embed"),
        pytest.param(lambda path: any(path.glob("versions/*/chunks/*.parquet")), id="index"),
    ],
)
def test_a_lost_node_is_made_up_for(
    cluster: Cluster,
    source: Path,
    tmp_path: Path,
    undisturbed: list[Any],
    moment: Callable[[Path], bool],
) -> None:
    path = tmp_path / "c"
    process = start(cluster, source, path)
    wait(process, lambda: moment(path))
    lost = next(iter(cluster.worker_nodes))
    cluster.remove_node(lost, allow_graceful=False)
    try:
        finish(process)
    finally:
        process.kill()
        cluster.add_node(**NODE)
    assert state(path) == undisturbed
