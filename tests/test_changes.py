"""What a run has to do, from tables of files and documents alone."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.changes import Changes, failed_uris, find_changes
from rag_cluster.hashes import as_words
from rag_cluster.schema import DOCUMENT, FILE, document_id, rows_to_table
from rag_cluster.work import IDENTITY, document_keys, file_digest, no_documents

PARSE = "p1"


def files(*rows: tuple[str, str | None]) -> pa.Table:
    return rows_to_table([{"uri": uri, "etag": etag} for uri, etag in rows], FILE)


def document(file: str, etag: str, **columns: Any) -> dict[str, Any]:
    file, _, part = file.partition("@")
    source = {"file": file, "part": part or None, "etag": etag, "parse": PARSE, "documents": 1}
    uri = columns.get("uri", file)
    return {
        "doc_id": document_id(uri), "uri": uri, "content_hash": f"{uri}@{etag}", "status": "ok",
        "source": source | columns.pop("source", {}), **columns,
    }  # fmt: skip


def documents(*rows: dict[str, Any]) -> pa.Table:
    return rows_to_table(rows, DOCUMENT).select(IDENTITY)


def changes(listing: pa.Table, before: pa.Table, **options: Any) -> Changes:
    finished = options.pop("finished", no_documents())
    parse = options.pop("parse", PARSE)
    return find_changes(listing, before, finished, parse, **{"fits": True, **options})


def gone(found: Changes, *names: str) -> list[bool]:
    pairs = [name.partition("@") for name in names]
    digests = [file_digest(file, part or None) for file, _, part in pairs]
    return found.gone.holds(as_words(digests)).tolist()


def test_files_are_read_when_they_are_new_or_their_tag_is_another() -> None:
    before = documents(document("same", "1"), document("edited", "1"), document("absent", "1"))
    found = changes(files(("same", "1"), ("edited", "2"), ("new", "1")), before)
    assert found.files["uri"].to_pylist() == ["edited", "new"]
    assert gone(found, "same", "edited", "absent") == [False, True, False]
    assert not found.restore


def test_sync_removes_what_is_not_listed() -> None:
    before = documents(document("a", "1"), document("b", "1"))
    found = changes(files(("a", "1")), before, sync=True)
    assert gone(found, "a", "b") == [False, True]
    assert found.removed_files == 1


def test_another_parser_reads_all_again_and_other_chunks_restore_what_stays() -> None:
    before = documents(document("a", "1"), document("elsewhere", "1"))
    assert changes(files(("a", "1")), before, parse="p2").files.num_rows == 1
    found = changes(files(("a", "1")), before, fits=False)
    assert (found.files.num_rows, found.restore, len(found.done)) == (0, True, 0)
    assert changes(files(("new", "1")), documents(document("elsewhere", "1")), fits=False).restore
    assert not changes(files(("new", "1")), no_documents(), fits=False).restore


def test_a_file_without_a_tag_is_read_each_time() -> None:
    before = documents(document("a", "", source={"etag": None}))
    assert changes(files(("a", None)), before).files.num_rows == 1


def test_a_file_of_which_a_document_is_missing_is_read_again() -> None:
    before = documents(document("r", "1", uri="r#1", source={"documents": 2}))
    assert changes(files(("r", "1")), before).files.num_rows == 1


def test_failures_are_tried_again_when_asked_or_when_they_may_have_passed() -> None:
    before = documents(
        document("damaged", "1", status="failed", error="damaged"),
        document("locked", "1", status="failed", error="cannot be read"),
        document("good", "1"),
    )
    listing = files(("damaged", "1"), ("locked", "1"), ("good", "1"))
    assert changes(listing, before).files["uri"].to_pylist() == ["locked"]
    again = changes(listing, before, retry_failed=True)
    assert again.files["uri"].to_pylist() == ["damaged", "locked"]
    assert failed_uris(before) == ["damaged", "locked"]


def test_what_an_interrupted_run_has_finished_is_not_read_but_replaces() -> None:
    before = documents(document("a", "1"), document("b", "1"))
    finished = documents(document("a", "2"))
    found = changes(files(("a", "2"), ("b", "2")), before, finished=finished)
    assert found.files["uri"].to_pylist() == ["b"]
    assert gone(found, "a", "b") == [True, True]
    assert found.done.holds(as_words(document_keys(finished))).all()


def test_a_file_that_is_cut_into_other_parts_is_replaced_as_a_whole() -> None:
    before = documents(document("r@0:10", "1", uri="r#1"), document("r@10:15", "1", uri="r#2"))
    rows = [
        {"uri": "r", "etag": "2", "part_start": s, "part_end": e} for s, e in ((0, 10), (10, 20))
    ]
    found = changes(rows_to_table(rows, FILE), before)
    assert found.files.num_rows == 2
    assert gone(found, "r@0:10", "r@10:15", "r@10:20") == [True, True, True]


def test_contents_that_may_have_got_another_name() -> None:
    before = documents(document("old", "1"), document("a", "1"))
    assert changes(files(("a", "1"), ("new", "1")), before).moved == {"old@1"}
    assert changes(files(("a", "1")), before).moved == frozenset()


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123")),
    st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123")),
    st.booleans(),
)
def test_a_run_over_what_it_left_has_nothing_to_do(
    before: dict[str, str], now: dict[str, str], sync: bool
) -> None:
    old = documents(*(document(file, etag) for file, etag in before.items()))
    found = changes(files(*now.items()), old, sync=sync)
    read = set(found.files["uri"].to_pylist())
    assert read == {file for file, etag in now.items() if before.get(file) != etag}
    left = {**({} if sync else before), **now}
    again = changes(
        files(*now.items()), documents(*(document(f, e) for f, e in left.items())), sync=sync
    )
    assert again.files.num_rows == 0
    assert len(again.gone) == 0


def test_who_waits_for_an_id_is_read_again_when_anything_goes() -> None:
    before = documents(
        document("owner", "1"),
        document("waits", "1", status="failed", error="duplicate id"),
        document("other", "1"),
    )
    same = files(("owner", "1"), ("waits", "1"), ("other", "1"))
    assert changes(same, before).files.num_rows == 0
    found = changes(files(("waits", "1"), ("other", "1")), before, sync=True)
    assert found.files["uri"].to_pylist() == ["waits"]
    edited = files(("owner", "2"), ("waits", "1"), ("other", "1"))
    assert changes(edited, before).files["uri"].to_pylist() == ["owner", "waits"]
