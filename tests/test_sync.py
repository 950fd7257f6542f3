"""Ingesting again: what changes, what is reused, what is removed; on real Ray."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from small_corpus import FAKE, write_corpus

from rag_cluster import config, deletion, inspection, pipeline
from rag_cluster.answer.query import Engine
from rag_cluster.errors import UsageError
from rag_cluster.schema import DOCUMENT
from rag_cluster.storage import Collection

pytestmark = pytest.mark.usefixtures("ray_session")


def ingest(
    path: Path, *sources: Path, settings: tuple[str, ...] = (), **how: Any
) -> dict[str, Any]:
    made = config.load(None, [*FAKE, "resources.encoders=1", *settings])
    return pipeline.ingest([str(source) for source in sources], path, made, **how)


def counts(summary: dict[str, Any]) -> tuple[int, ...]:
    """Added, changed, unchanged, removed; files parsed, documents chunked, texts encoded."""
    return (*summary["changes"].values(), *summary["work"].values())


def state(path: Path) -> dict[str, list[dict[str, Any]]]:
    """All documents and chunks, in order of their ids."""
    opened = Collection.open(path)
    chunks = opened.chunks().table.to_pylist()
    documents = opened.documents([n for n in DOCUMENT.names if n != "source"]).to_pylist()
    return {
        "chunks": sorted(chunks, key=lambda row: row["chunk_id"]),
        "documents": sorted(documents, key=lambda row: row["doc_id"]),
    }


def test_a_collection_follows_its_sources(tmp_path: Path) -> None:
    source, path = tmp_path / "source", tmp_path / "c"
    write_corpus(source)
    assert counts(ingest(path, source)) == (24, 0, 0, 0, 5, 23, 24)

    again = ingest(path, source)
    assert counts(again) == (0, 0, 24, 0, 0, 0, 0)
    assert again["version"] == "v000001"  # nothing changed: nothing was published

    # One text and one record change, a file has another name, a file goes, and one comes.
    (source / "garden.txt").write_text("The garden is closed in winter.")
    records = source / "stars.jsonl"
    records.write_text(records.read_text().replace("colour number 7", "the colour of gold"))
    (source / "page.html").rename(source / "visit-2024.html")
    (source / "broken.pdf").unlink()
    (source / "new.md").write_text("# New\n\nOwls hunt at night.")
    assert counts(ingest(path, source, sync=True)) == (2, 2, 20, 2, 4, 4, 3)
    assert inspection.audit(Collection.open(path))["problems"] == []

    fresh = tmp_path / "fresh"
    ingest(fresh, source)
    assert state(path) == state(fresh)

    # Other chunks are cut from the stored texts; other shards of what there is.
    smaller = ("chunk.size=24", "index.shards=3")
    changed = counts(ingest(path, source, settings=smaller))
    assert changed[:6] == (0, 0, 24, 0, 0, 24)
    assert inspection.audit(Collection.open(path))["problems"] == []
    ingest(fresh, source, settings=smaller)
    assert state(path) == state(fresh)
    index = ("chunk.size=24", "index.shards=2", "index.lexical.k1=1.2")
    assert counts(ingest(path, source, settings=index)) == (0, 0, 24, 0, 0, 0, 0)

    # Removal on request leaves nothing of it.
    report = deletion.delete(path, [str(source / "visit-2024.html")])
    assert report["deleted"] == [str(source / "visit-2024.html")]
    assert set(report["left"].values()) == {0}
    engine = Engine.open(path)
    assert engine.collection.manifest["documents_total"] == 23
    hits = asyncio.run(engine.search("tickets cost nine euros", top_k=50)).hits
    assert not [hit for hit in hits if "visit-2024" in hit.uri]
    assert inspection.audit(Collection.open(path))["problems"] == []
    with pytest.raises(UsageError, match="no document 'nothing'"):
        deletion.delete(path, ["nothing"])
    with pytest.raises(UsageError, match="say what to delete"):
        deletion.delete(path)


def test_equal_texts_of_many_files_are_encoded_once(tmp_path: Path) -> None:
    for i in range(40):
        folder = tmp_path / "source" / str(i)
        folder.mkdir(parents=True)
        (folder / "notice.md").write_text("# Notice\n\nThe office is closed on Monday.")
    settings = ("resources.encode_batch=4", "resources.parse_batch=2")
    summary = ingest(tmp_path / "c", tmp_path / "source", settings=settings)
    assert counts(summary) == (40, 0, 0, 0, 40, 40, 1)
    opened = Collection.open(tmp_path / "c")
    assert opened.manifest["searchable"] == 40
    assert inspection.audit(opened)["problems"] == []


def test_failed_files_are_tried_again_on_request(tmp_path: Path) -> None:
    source, path = tmp_path / "source", tmp_path / "c"
    source.mkdir()
    (source / "a.txt").write_text("Good.")
    (source / "b.pdf").write_bytes(b"%PDF-1.7\nno")
    assert counts(ingest(path, source)) == (2, 0, 0, 0, 2, 1, 1)
    again = ingest(path, retry_failed=True)
    assert counts(again) == (0, 0, 2, 0, 1, 0, 0)
    assert again["this_run"] == {"ok": 0, "empty": 0, "failed": 1}
    (source / "b.pdf").write_text("It is a text now.")
    assert ingest(path, retry_failed=True)["documents"] == {"ok": 2, "empty": 0, "failed": 0}
    with pytest.raises(UsageError, match="has failed: there is nothing to try again"):
        ingest(path, retry_failed=True)
