from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from made_documents import Made

from rag_cluster import config
from rag_cluster.chunk.audit import audit
from rag_cluster.chunk.stage import Chunker, chunker_fingerprint
from rag_cluster.schema import CHUNK, DOCUMENT, rows_to_table

TREE = config.build({"chunk": {"size": 16, "overlap": 4}, "embed": {"model": "fake:8"}})


@pytest.fixture
def documents() -> pa.Table:
    made = Made().heading("Small").add("A text.").heading("Large").add("One two three four. " * 8)
    pages = [{"number": 1, "start": 0, "end": 40}, {"number": 2, "start": 40, "end": 200}]
    empty = {"doc_id": "empty", "status": "empty", "text": ""}
    return rows_to_table([made.row(pages=pages), empty], DOCUMENT)


def problems(documents: pa.Table, rows: list[dict[str, Any]]) -> list[str]:
    found = audit(documents, rows_to_table(rows, CHUNK), chunker_fingerprint(TREE))
    return [problem.what for problem in found]


def test_what_the_chunker_makes_has_no_problems(documents: pa.Table) -> None:
    rows = Chunker(TREE)(documents).to_pylist()
    assert len(rows) > 4
    assert problems(documents, rows) == []
    assert problems(documents, rows[::-1]) == []  # the order of rows is the storage's own


@pytest.mark.parametrize(
    ("index", "changes", "what"),
    [
        (0, {"text": "B text."}, "its text is not the document's"),
        (0, {"end": 9_999}, "is not in the document's"),
        (0, {"chunk_id": "other"}, "its id should be"),
        (3, {"ordinal": 9}, "its ordinal is 9 where"),
        (3, {"parent_id": "nobody"}, "its parent nobody is not before it"),
        (0, {"page_last": 3}, "its pages 1 to 3 are not"),
        (0, {"page_first": None}, "its pages None to 1 are not"),
        (0, {"doc_id": "gone"}, "its document does not exist"),
        (0, {"doc_id": "empty"}, "its document has the status 'empty'"),
    ],
)
def test_each_kind_of_damage_is_found(
    documents: pa.Table, index: int, changes: dict[str, Any], what: str
) -> None:
    rows = Chunker(TREE)(documents).to_pylist()
    rows[index] |= changes
    assert any(what in problem for problem in problems(documents, rows))


def test_two_chunks_of_one_id(documents: pa.Table) -> None:
    rows = Chunker(TREE)(documents).to_pylist()
    assert "another chunk has the same id" in problems(documents, [*rows, rows[0]])


def test_a_part_outside_of_its_parent(documents: pa.Table) -> None:
    rows = Chunker(TREE)(documents).to_pylist()
    rows[2]["parent_id"] = rows[0]["chunk_id"]
    assert "it reaches out of its parent" in problems(documents, rows)


def test_blank_text(documents: pa.Table) -> None:
    rows = Chunker(TREE)(documents).to_pylist()
    space = documents["text"][0].as_py().index(" ")
    rows[0] |= {"start": space, "end": space + 1, "text": " "}
    assert "its text is blank" in problems(documents, rows)
