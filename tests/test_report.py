"""The report of an ingest, from figures that were counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_cluster import config
from rag_cluster.progress import Count, Snapshot
from rag_cluster.report import make_report, readable, write_report
from rag_cluster.show.ingest import describe

MANIFEST = {
    "version": "v000002",
    "created": "2026-01-01T00:00:00+00:00",
    "documents": {"ok": 9, "empty": 0, "failed": 1},
    "documents_total": 10,
    "changes": {"added": 10, "changed": 0, "unchanged": 0, "removed": 0},
    "chunks": 40,
    "failures": {"damaged": 1},
    "sparse": None,
    "near_duplicates": {"documents": 3, "clusters": 2},
    "shards": [{"files": {"a": {"bytes": 3_000_000}, "b": {"bytes": 1_000_000}}}],
}


def snapshot(documents: int = 5) -> Snapshot:
    steps = {
        "chunk": Count(rows_in=documents, rows_out=20, seconds=1.0),
        "embed": Count(rows_in=20, rows_out=20, seconds=36.0, encoded=15),
    }
    return Snapshot(files=5, size=2_000_000, elapsed=18.0, steps=steps)


def test_rates_and_the_estimate() -> None:
    settings = ["resources.estimate_for=1000", "resources.price_per_hour=10"]
    made = make_report(MANIFEST, snapshot(), config.load(None, settings), 2.0, 0.0)
    assert made["stages"]["embed"]["rows_per_worker_second"] == pytest.approx(0.6, abs=0.05)
    assert made["stages"]["embed"]["rows_per_second"] == 1.1
    assert made["duplicates"] == {"texts": 20, "encoded": 15, "share": 0.25}
    # 5 documents took 18 s: 1,000 take an hour; embedding them takes two worker hours.
    assert made["estimate"] == {
        "documents": 1000,
        "chunks": 4000,
        "worker_hours": {"chunk": 0.056, "embed": 2.0},
        "hours_on_this_cluster": 1.0,
        "collection_bytes": 400_000_000,
        "cost": 10.0,
    }


def test_no_estimate_without_work(tmp_path: Path) -> None:
    made = make_report(MANIFEST, snapshot(0), config.Config(), 2.0, 0.0)
    assert made["estimate"] is None
    lines = readable(made)
    assert "| damaged | 1 |" in lines
    assert "3 documents are near-duplicates of 2 others" in lines[2]
    assert "sparse vectors" not in lines[2]
    sparse = {"model": "fake:9", "weights": 1230, "weights_per_chunk": 12.3}
    made = make_report(MANIFEST | {"sparse": sparse}, snapshot(0), config.Config(), 2.0, 0.0)
    lines = readable(made)
    assert "The sparse vectors of fake:9 have 12.3 terms on average." in lines[2]
    write_report(tmp_path, made)
    assert (tmp_path / "report.md").read_text() == "\n".join(lines) + "\n"


def test_a_line_of_progress_says_what_is_done_stage_by_stage_and_what_is_left() -> None:
    steps = {
        "parse": Count(rows_in=50, rows_out=60, failed=2, seconds=9.0),
        "keep": Count(rows_in=60, rows_out=58, seconds=1.0),
        "chunk": Count(rows_in=40, rows_out=80, seconds=1.0),
        "embed": Count(rows_in=60, rows_out=60, seconds=30.0, encoded=60),
    }
    # 100 files give 120 documents of 2 chunks: 240 chunks, of which 60 took 20 s.
    assert describe(Snapshot(files=100, size=1, elapsed=20.0, steps=steps)) == (
        "0m20s  50/100 files, 60 documents (2 failed), 40 chunked, 60 chunks embedded, "
        "2.0 documents/s, 3 chunks/s, about 1m00s left"
    )


def test_rates_and_the_time_left_are_of_the_step_and_not_of_what_came_before() -> None:
    steps = {
        "parse": Count(rows_in=10, rows_out=10),
        "keep": Count(rows_in=10),
        "prompts": Count(rows_in=10, rows_out=40),
        "generate": Count(rows_in=20, rows_out=20, began=100.0),
    }
    asking = Snapshot(files=10, size=1, elapsed=110.0, steps=steps)
    assert describe(asking).endswith("20 answers (0 failed), about 0m10s left of asking")
    steps |= {
        "chunk": Count(rows_in=5, rows_out=20, began=200.0),
        "embed": Count(rows_in=10, rows_out=10, began=200.0),
    }
    # Of 40 chunks 10 took 5 s.
    encoding = Snapshot(files=10, size=1, elapsed=205.0, steps=steps)
    assert describe(encoding).endswith("1.0 documents/s, 2 chunks/s, about 0m15s left")
