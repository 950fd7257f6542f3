"""`ray job submit` against a real cluster of its own: what the README shows, with small inputs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from ray_head import BIN, Cluster
from small_corpus import FAKE

from rag_cluster.storage import Collection

ROOT = Path(__file__).parent.parent
SETTINGS = [word for setting in FAKE for word in ("--set", setting)]


def submit(head: Cluster, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            BIN / "ray", "job", "submit", "--address", head.url, "--working-dir", ".",
            "--", "python", "-m", module, *arguments,
        ],
        cwd=ROOT, env=head.environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


def run_here(head: Cluster, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT, env=head.environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def last_object(text: str) -> dict[str, object]:
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[-1])


def test_an_ingest_is_submitted_and_measured(head: Cluster, corpus: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "c")
    done = submit(
        head, "jobs.ingest", str(corpus), "--collection", path, "--json", *SETTINGS,
        "--set", "resources.encoders=1",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    summary = last_object(done.stdout)
    assert summary["version"] == "v000001"
    assert summary["documents"] == {"ok": 23, "empty": 0, "failed": 1}
    assert Collection.open(path).manifest["chunks"] == summary["chunks"]
    (tmp_path / "queries.jsonl").write_text('{"_id": "q", "text": "when do roses bloom"}\n')
    (tmp_path / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\tgarden.txt\t1\n")
    done = run_here(
        head, "jobs.evaluate", "--collection", path, "--queries", str(tmp_path / "queries.jsonl"),
        "--qrels", str(tmp_path / "qrels.tsv"), "--metrics", "Success@1", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert last_object(done.stdout)["metrics"] == {"Success@1": 1.0}


def test_a_job_ends_as_its_command_does(head: Cluster, tmp_path: Path) -> None:
    done = run_here(head, "jobs.ingest", str(tmp_path / "no"), "--collection", str(tmp_path / "c"))
    assert done.returncode == 2
    assert done.stderr.startswith("rag-cluster: ")
    assert len(done.stderr.splitlines()) == 1
