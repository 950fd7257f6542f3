"""Parts of a run, and what of an interrupted run is finished."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from rag_cluster.hashes import Hashes
from rag_cluster.schema import DOCUMENT, conform, document_id, rows_to_table
from rag_cluster.work import (
    CHUNKS,
    DOCUMENTS,
    KeepChunks,
    KeepDocuments,
    RestoreDocuments,
    document_keys,
    drop_unreadable,
    file_digest,
    finished,
    last_cut,
    not_gone,
    part_files,
    part_schema,
    stored_documents,
    write_parts,
)

DIM = 2
SCHEMA = part_schema({}, DIM)


def document(uri: str, etag: str = "1", **columns: Any) -> dict[str, Any]:
    source = {"file": uri, "etag": etag, "parse": "p", "documents": 1}
    return {
        "doc_id": document_id(uri), "uri": uri, "content_hash": f"{uri}{etag}", "text": uri,
        "status": "ok", "source": source, **columns,
    }  # fmt: skip


def chunk(uri: str, ordinal: int, siblings: int, etag: str = "1") -> dict[str, Any]:
    return {
        "chunk_id": f"{uri}-{ordinal}", "doc_id": document_id(uri), "uri": uri,
        "content_hash": f"{uri}{etag}", "ordinal": ordinal, "siblings": siblings, "text": "t",
        "reused": False,
    }  # fmt: skip


def table(schema: pa.Schema, *rows: dict[str, Any]) -> pa.Table:
    return rows_to_table(rows, schema)


def current(*pairs: tuple[str, str]) -> Hashes:
    return Hashes.of(file_digest(file, None, etag) for file, etag in pairs)


def test_documents_pass_unless_they_are_done_or_not_ok(tmp_path: Path) -> None:
    made = table(
        DOCUMENT, document("a"), document("b"), document("c", status="failed", error="damaged")
    )
    done = Hashes.of(document_keys(made.slice(0, 1)))
    keep = KeepDocuments(tmp_path, 3, lambda: done)
    assert keep(made)["uri"].to_pylist() == ["b"]
    kept = [p for shard in range(3) for p in part_files(tmp_path, DOCUMENTS, shard)]
    assert sum(pa.parquet.read_metadata(path).num_rows for path in kept) == 3
    keep(made)  # a task that runs again replaces its own files
    assert [p for shard in range(3) for p in part_files(tmp_path, DOCUMENTS, shard)] == kept


def test_a_document_is_finished_when_all_of_its_chunks_are_there(tmp_path: Path) -> None:
    rows = [document("whole"), document("half"), document("none", status="empty"), document("old")]
    write_parts(table(DOCUMENT, *rows), tmp_path / DOCUMENTS, 2)
    store = KeepChunks(tmp_path, 2)
    first = table(SCHEMA, chunk("whole", 0, 2), chunk("half", 0, 2), chunk("old", 0, 1))
    assert store(first).to_pylist() == [{"rows": 3}]
    store(table(SCHEMA, chunk("whole", 1, 2), chunk("half", 0, 2)))
    now = current(("whole", "1"), ("half", "1"), ("none", "1"), ("old", "2"))
    found = finished(tmp_path, 2, now)
    assert sorted(found["uri"].to_pylist()) == ["none", "whole"]


def test_of_a_document_that_was_cut_twice_the_last_time_counts(tmp_path: Path) -> None:
    rows = [document("whole"), document("half"), document("once")]
    write_parts(table(DOCUMENT, *rows), tmp_path / DOCUMENTS, 1)
    before = [chunk(name, at, 2) for name in ("whole", "half") for at in range(2)]
    after = [*(chunk("whole", at, 3) for at in range(3)), chunk("half", 0, 3), chunk("once", 0, 1)]
    for part in (before, after):
        KeepChunks(tmp_path, 1)(table(SCHEMA, *part))
    now = current(("whole", "1"), ("half", "1"), ("once", "1"))
    assert sorted(finished(tmp_path, 1, now)["uri"].to_pylist()) == ["once", "whole"]
    assert last_cut(table(SCHEMA, *before, *after)).to_pylist() == table(SCHEMA, *after).to_pylist()
    assert last_cut(table(SCHEMA, *before)).num_rows == 4


def test_chunks_of_another_content_do_not_finish_a_document(tmp_path: Path) -> None:
    write_parts(table(DOCUMENT, document("a", "2")), tmp_path / DOCUMENTS, 1)
    KeepChunks(tmp_path, 1)(table(SCHEMA, chunk("a", 0, 1, etag="1")))
    assert finished(tmp_path, 1, current(("a", "2"))).num_rows == 0
    assert len(part_files(tmp_path, CHUNKS, 0)) == 1


def test_stored_documents_that_stay_are_chunked_again(tmp_path: Path) -> None:
    rows = [document(name) for name in ("stays", "gone", "done")]
    made = conform(table(DOCUMENT, *rows), DOCUMENT)
    pa.parquet.write_table(made, tmp_path / "d.parquet", row_group_size=2)
    stored = stored_documents([tmp_path / "d.parquet"])
    assert stored["group"].to_pylist() == [0, 1]
    gone = Hashes.of([file_digest("gone", None)])
    restore = RestoreDocuments(
        functools.partial(not_gone, gone=lambda: gone),
        lambda: Hashes.of(document_keys(made.slice(2, 1))),
    )
    found = [restore(stored.slice(i, 1))["uri"].to_pylist() for i in range(2)]
    assert found == [["stays"], []]


def test_an_empty_folder_has_nothing_finished(tmp_path: Path) -> None:
    assert finished(tmp_path, 4, current()).num_rows == 0
    assert np.array_equal(part_files(tmp_path, CHUNKS, 0), [])


def test_a_document_that_failed_is_another_than_one_that_is_ok() -> None:
    failed = table(DOCUMENT, document("a", status="failed", error="parser error"))
    assert document_keys(failed) != document_keys(table(DOCUMENT, document("a")))


def test_damaged_parts_and_those_of_another_layout_are_made_again(tmp_path: Path) -> None:
    write_parts(table(DOCUMENT, document("a"), document("b")), tmp_path / DOCUMENTS, 1)
    KeepChunks(tmp_path, 1)(table(SCHEMA, chunk("a", 0, 1)))
    [chunks] = part_files(tmp_path, CHUNKS, 0)
    [documents] = part_files(tmp_path, DOCUMENTS, 0)
    drop_unreadable(tmp_path, 1, SCHEMA)
    assert part_files(tmp_path, CHUNKS, 0) == [chunks]
    chunks.write_bytes(chunks.read_bytes()[:50])
    pa.parquet.write_table(pa.table({"doc_id": ["a"]}), documents)
    drop_unreadable(tmp_path, 1, SCHEMA)
    assert part_files(tmp_path, CHUNKS, 0) == part_files(tmp_path, DOCUMENTS, 0) == []
