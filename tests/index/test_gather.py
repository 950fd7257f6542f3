"""Gathering shards from parts and from a published version, without a cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from gathering import documents, gather, rows, run

from rag_cluster.errors import IngestError
from rag_cluster.hashes import Hashes
from rag_cluster.index.gather import Gathered
from rag_cluster.index.reuse import find_wanted, held_hashes, locate
from rag_cluster.storage import read_table
from rag_cluster.work import CHUNKS, file_digest, part_files

TEXTS = {name: f"The {name} is {colour}." for name, colour in
         (("rose", "red"), ("sky", "blue"), ("leaf", "green"), ("sun", "yellow"))}  # fmt: skip


def changes(gathered: list[Gathered]) -> dict[str, int]:
    return {name: sum(g.changes[name] for g in gathered)
            for name in ("added", "changed", "unchanged", "removed")}  # fmt: skip


def test_a_version_is_cut_into_other_shards_without_new_work(tmp_path: Path) -> None:
    table = documents(TEXTS)
    run(tmp_path / "1" / "work", table)
    assert changes(gather(tmp_path / "1", table)) == {
        "added": 4, "changed": 0, "unchanged": 0, "removed": 0,
    }  # fmt: skip
    old = {"old": tmp_path / "1" / "version", "old_shards": 1}
    found = gather(tmp_path / "3", table, 3, **old)
    assert changes(found) == {"added": 0, "changed": 0, "unchanged": 4, "removed": 0}
    for kind in ("documents", "chunks", "vectors"):
        assert rows(tmp_path / "3", kind, 3) == rows(tmp_path / "1", kind)
    back = gather(tmp_path / "2", table, 2, old=tmp_path / "3" / "version", old_shards=3)
    assert sum(g.chunks for g in back) == 4
    assert rows(tmp_path / "2", "vectors", 2) == rows(tmp_path / "1", "vectors")


def test_changed_documents_are_replaced_and_gone_ones_are_not_there(tmp_path: Path) -> None:
    before = documents(TEXTS)
    run(tmp_path / "1" / "work", before)
    gather(tmp_path / "1", before)
    now = documents({"rose": "The rose is white."})
    run(tmp_path / "2" / "work", now)
    gone = Hashes.of(file_digest(name, None) for name in ("rose", "sky"))
    old = {"old": tmp_path / "1" / "version", "old_shards": 1}
    found = gather(tmp_path / "2", now, gone=gone, **old)
    assert changes(found) == {"added": 0, "changed": 1, "unchanged": 2, "removed": 1}
    texts = [row["text"] for row in rows(tmp_path / "2", "chunks")]
    assert sorted(texts) == ["The leaf is green.", "The rose is white.", "The sun is yellow."]
    vectors = {row["chunk_id"]: row["vector"] for row in rows(tmp_path / "2", "vectors")}
    assert len(vectors) == 3
    assert found[0].this_run == {"ok": 1}


def test_parts_of_a_file_that_changed_since_are_left_out(tmp_path: Path) -> None:
    run(tmp_path / "work", documents({"rose": "The rose was pink."}))
    now = documents(TEXTS)
    run(tmp_path / "work", now)
    gather(tmp_path, now)
    assert sorted(row["text"] for row in rows(tmp_path, "chunks")) == sorted(TEXTS.values())


def test_vectors_are_filled_in_from_where_they_are(tmp_path: Path) -> None:
    first, table = documents({"a": "Same text here."}), documents({"b": "Same text here."})
    run(tmp_path / "other", first)
    known = part_files(tmp_path / "other", CHUNKS, 0)
    run(tmp_path / "work", table, known=Hashes(held_hashes(known)))
    mine = part_files(tmp_path / "work", CHUNKS, 0)
    with pytest.raises(IngestError, match="of b has no vector"):
        gather(tmp_path, table)
    gather(tmp_path, table, places=locate(known, find_wanted(mine)))
    [row] = rows(tmp_path, "vectors")
    expected = pa.concat_tables(read_table(path) for path in known)["vector"][0].as_py()
    np.testing.assert_array_equal(row["vector"], expected)


def test_records_with_one_id_keep_their_own_chunks(tmp_path: Path) -> None:
    one = documents({"r#a": "Rain falls."})
    other = documents({"r#a": "Snow falls now."})
    run(tmp_path / "work", pa.concat_tables([one, other]))
    table = pa.concat_tables([one, other])
    [found] = gather(tmp_path, table)
    assert found.documents == {"ok": 1, "failed": 1}
    assert found.failures == {"duplicate id": 1}
    [chunk] = rows(tmp_path, "chunks")
    [good] = [row for row in rows(tmp_path, "documents") if row["status"] == "ok"]
    assert good["text"] == chunk["text"]


def test_an_id_that_an_old_and_a_new_file_claim_is_the_first_ones(tmp_path: Path) -> None:
    old = documents({"b#x": "Said by b."})
    run(tmp_path / "1" / "work", old)
    gather(tmp_path / "1", old)
    doc_id = old["doc_id"][0].as_py()
    new = documents({"a#x": "Said by a."}, doc_id=doc_id)
    run(tmp_path / "2" / "work", new)
    before = {"old": tmp_path / "1" / "version", "old_shards": 1}
    [found] = gather(tmp_path / "2", new, **before)
    assert found.documents == {"ok": 1, "failed": 1}
    assert [row["text"] for row in rows(tmp_path / "2", "chunks")] == ["Said by a."]
    # The other way round: the published one keeps it.
    later = documents({"c#x": "Said by c."}, doc_id=doc_id)
    run(tmp_path / "3" / "work", later)
    gather(tmp_path / "3", later, **before)
    assert [row["text"] for row in rows(tmp_path / "3", "chunks")] == ["Said by b."]


def test_a_file_that_could_be_read_after_all_has_not_failed(tmp_path: Path) -> None:
    failed = documents({"a": ""}, status="failed", error="cannot be read", content_hash="none")
    good = documents({"a": "It is there."})
    source = good.column("source")
    both = pa.concat_tables(
        [failed.set_column(failed.schema.get_field_index("source"), "source", source), good]
    )
    run(tmp_path / "work", both)
    [found] = gather(tmp_path, good)
    assert found.documents == {"ok": 1}
    assert [row["text"] for row in rows(tmp_path, "chunks")] == ["It is there."]
