"""Near-duplicates in a collection: marked, indexed once, searched, deleted; on real Ray."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from small_corpus import FAKE

from rag_cluster import config, deletion, inspection, pipeline
from rag_cluster.answer.query import Engine
from rag_cluster.cli import run
from rag_cluster.storage import Collection

pytestmark = pytest.mark.usefixtures("ray_session")

NOTICE = " ".join(f"Rule {i}: gate {i * 7} is closed on day {i * 3}." for i in range(40))


def ingest(path: Path, source: Path, near: str) -> dict[str, Any]:
    settings = [*FAKE, "index.shards=2", f"duplicates.near={near}"]
    return pipeline.ingest([str(source)], path, config.load(None, settings))


def found(path: Path) -> set[str]:
    engine = Engine.open(path)
    hits = asyncio.run(engine.search("gate 77 is closed", top_k=200)).hits
    return {Path(hit.uri).name for hit in hits}


def chunks(path: Path) -> list[dict[str, Any]]:
    table = Collection.open(path).chunks().table
    return sorted(table.to_pylist(), key=lambda row: row["chunk_id"])


def test_a_near_duplicate_is_marked_indexed_once_and_takes_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, path = tmp_path / "source", tmp_path / "c"
    source.mkdir()
    (source / "first.txt").write_text(NOTICE)
    (source / "second.txt").write_text(NOTICE.replace("day 99", "day 98"))
    (source / "other.txt").write_text("Tulips bloom in May and roses in June.")

    summary = ingest(path, source, "mark")
    assert summary["near_duplicates"] == {"documents": 1, "clusters": 1}
    assert found(path) >= {"first.txt", "second.txt"}
    every = chunks(path)
    assert run(["inspect", "--duplicates", "--json", "--collection", str(path)]) == 0
    [cluster] = json.loads(capsys.readouterr().out)["duplicates"]
    assert cluster["uri"] == str(source / "first.txt")
    assert [row["uri"] for row in cluster["nearly_equal"]] == [str(source / "second.txt")]

    once = ingest(path, source, "index_once")
    assert tuple(once["work"].values()) == (0, 0, 0)
    assert once["chunks"] < summary["chunks"]
    assert "second.txt" not in found(path)
    opened = Collection.open(path)
    audit = inspection.audit(opened)
    assert (audit["problems"], audit["chunks"]) == ([], summary["chunks"])
    shown = inspection.document(opened, "second.txt", with_chunks=True)
    assert shown["duplicate_of"]["uri"] == str(source / "first.txt")
    assert shown["chunks"] == []
    assert run(["inspect", "--document", "second.txt", "--collection", str(path)]) == 0
    assert "nearly equals" in capsys.readouterr().out
    assert inspection.last_report(opened)["near_duplicates"]["documents"] == 1

    report = deletion.delete(path, ["first.txt"])
    assert set(report["left"].values()) == {0}
    assert "second.txt" in found(path)

    back = ingest(path, source, "mark")
    assert back["changes"]["added"] == 1
    assert back["work"]["texts"] <= 1 + len(every)
    assert chunks(path) == every
    assert inspection.audit(Collection.open(path))["problems"] == []

    ingest(path, source, "none")
    assert Collection.open(path).manifest["near_duplicates"] is None
    assert run(["inspect", "--duplicates", "--collection", str(path)]) == 2
    assert "duplicates.near=mark" in capsys.readouterr().err
