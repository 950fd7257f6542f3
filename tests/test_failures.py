"""What goes wrong while an ingest runs: the published version stays, and the next run works."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from small_corpus import FAKE

from rag_cluster.answer.query import Engine
from rag_cluster.cli import run
from rag_cluster.storage import Collection, Writer

pytestmark = pytest.mark.usefixtures("ray_session")

COMMAND = Path(sys.executable).with_name("rag-cluster")
FIELDS = "metadata.fields={year: int, kind_of: keyword}"
SETTINGS = [word for s in (*FAKE, FIELDS, "resources.encoders=1") for word in ("--set", s)]
MANY = 400


def arguments(source: Path, path: Path) -> list[str]:
    return ["ingest", str(source), "--collection", str(path), *SETTINGS]


@pytest.fixture
def published(collection: Path, tmp_path: Path) -> Path:
    """A collection of one version, that this test may write to."""
    return Path(shutil.copytree(collection, tmp_path / "c"))


@pytest.fixture
def long_run(published: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """An ingest of many files into that collection, in mid-run, on the shared cluster."""
    (tmp_path / "many").mkdir()
    for i in range(MANY):
        (tmp_path / "many" / f"{i}.txt").write_text(f"Note {i} says that the sky is blue.")
    address = ray.get_runtime_context().gcs_address
    process = subprocess.Popen(
        [COMMAND, *arguments(tmp_path / "many", published)],
        env=os.environ | {"RAY_ADDRESS": address}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        for _ in range(2400):
            if any(published.glob("work/*/documents/*/*.parquet")):
                break
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.communicate()


def check_old_version(path: Path) -> None:
    assert Collection.open(path).version == "v000001"
    hits = asyncio.run(Engine.open(path).search("when do roses bloom")).hits
    assert hits[0].uri.endswith("/garden.txt")


def test_ctrl_c_and_the_run_after_it(
    long_run: subprocess.Popen[str], published: Path, tmp_path: Path
) -> None:
    long_run.send_signal(signal.SIGINT)
    _, said = long_run.communicate(timeout=60)
    assert long_run.returncode == 130
    # Between them may stand what Ray has to say of workers that end.
    lines = [line for line in said.splitlines() if line.startswith(("stopping: ", "rag-cluster: "))]
    assert [line.split()[0] for line in lines] == ["stopping:", "rag-cluster:"], said
    assert lines[1].startswith("rag-cluster: interrupted")
    assert "Traceback" not in said
    check_old_version(published)
    assert [entry.name for entry in (published / "versions").iterdir()] == ["v000001"]
    assert run(arguments(tmp_path / "many" / "0.txt", published)) == 0
    assert Collection.open(published).version == "v000002"


def test_a_killed_driver_and_the_run_after_it(
    long_run: subprocess.Popen[str], published: Path, tmp_path: Path
) -> None:
    long_run.kill()
    long_run.communicate(timeout=60)
    check_old_version(published)
    (tmp_path / "new.txt").write_text("Larks sing at dawn.")
    assert run(arguments(tmp_path / "new.txt", published)) == 0
    opened = Collection.open(published)
    assert opened.manifest["documents"] == {"ok": 24, "empty": 0, "failed": 1}
    assert list((published / "work").iterdir()) == []
    assert run(["inspect", "--collection", str(published), "--audit"]) == 0


def test_a_second_writer_is_refused_and_told_who_writes(
    published: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Writer(published):
        assert run(arguments(corpus, published)) == 2
    said = capsys.readouterr().err
    assert f"(process {os.getpid()}, since " in said
    assert "wait for it, or end it" in said
    check_old_version(published)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk(
    small_disk: Path, collection: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(shutil.copytree(collection, small_disk / "c"))
    noise = os.urandom(1_500_000).hex()
    lines = (noise[i : i + 60] for i in range(0, len(noise), 60))
    (tmp_path / "large.txt").write_text("\n".join(lines))
    assert run(arguments(tmp_path / "large.txt", path)) == 1
    said = capsys.readouterr().err
    assert "the disk is full" in said
    assert "Traceback" not in said
    check_old_version(path)
    assert [entry.name for entry in (path / "versions").iterdir()] == ["v000001"]
