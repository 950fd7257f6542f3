from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from made_documents import Made

from rag_cluster import config
from rag_cluster.chunk.stage import Chunker, chunker_fingerprint
from rag_cluster.schema import CHUNK, DOCUMENT, chunk_id, chunk_schema, rows_to_table

FAKE = {"embed": {"model": "fake:8"}}
# A byte-level tokenizer: a word inside of a text is one token ("Ġword"), at its start four.
BYTE_LEVEL = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": True,
    },
    "post_processor": None,
    "decoder": None,
    "model": {
        "type": "BPE",
        "vocab": {"w": 0, "o": 1, "r": 2, "d": 3, "Ġ": 4, "Ġw": 5, "or": 6, "Ġwor": 7, "Ġword": 8},
        "merges": ["Ġ w", "o r", "Ġw or", "Ġwor d"],
    },
}


def run(documents: pa.Table, **tree: Any) -> list[dict[str, Any]]:
    return Chunker(config.build(FAKE | tree))(documents).to_pylist()


def test_documents_that_failed_give_no_chunks() -> None:
    rows = [{"doc_id": name, "status": name, "text": "x"} for name in ("ok", "empty", "failed")]
    documents = rows_to_table(rows, DOCUMENT)
    assert [row["doc_id"] for row in run(documents)] == ["ok"]


def test_no_chunks_still_have_their_schema() -> None:
    tree = config.build(FAKE | {"metadata": {"fields": {"year": "int"}}})
    chunker = Chunker(tree)
    assert chunker(DOCUMENT.empty_table()).schema == chunker.gives == chunk_schema({"year": "int"})
    assert chunker.takes == DOCUMENT
    blank = rows_to_table([{"doc_id": "d", "status": "ok", "text": " \n "}], DOCUMENT)
    assert chunker(blank).num_rows == 0


def test_columns_are_the_documents() -> None:
    documents = Made().add("Some text.").documents(uri="a.md", title="A")
    (row,) = run(documents)
    assert (row["uri"], row["title"], row["text"], row["tokens"]) == ("a.md", "A", "Some text.", 3)
    assert (row["header"], row["context"], row["section_path"]) == ("", "", "")
    name = chunk_id(row["doc_id"], 0, 10, "section", chunker_fingerprint(config.build(FAKE)))
    assert row["chunk_id"] == name
    assert list(row) == CHUNK.names


def test_a_document_without_sections_is_one() -> None:
    documents = rows_to_table([{"doc_id": "d", "status": "ok", "text": " a b "}], DOCUMENT)
    (row,) = run(documents)
    assert (row["start"], row["end"], row["kind"], row["role"]) == (1, 4, "section", "body")


def test_pages_are_those_of_the_first_and_last_character() -> None:
    made = Made().add("one two", end="\n").add("three four", end="\n")
    pages = [{"number": 4, "start": 0, "end": 8}, {"number": 5, "start": 8, "end": 19}]
    (whole,) = run(made.documents(pages=pages))
    assert (whole["page_first"], whole["page_last"]) == (4, 5)
    (first,) = run(Made().add("one two", end="\n").documents(pages=pages))
    assert (first["page_first"], first["page_last"]) == (4, 4)


def test_declared_fields_are_typed_columns() -> None:
    metadata = json.dumps({"company": "3M", "year": "2022", "filed": "2023-02-08", "more": [1]})
    fields = {"company": "keyword", "year": "int", "filed": "date", "absent": "float"}
    documents = Made().add("Text.").documents(metadata=metadata)
    (row,) = run(documents, metadata={"fields": fields})
    assert (row["company"], row["year"], row["filed"]) == ("3M", 2022, date(2023, 2, 8))
    assert row["absent"] is None


def test_settings_and_model_are_in_the_id() -> None:
    documents = Made().add("Text.").documents()
    ids = {
        run(documents)[0]["chunk_id"],
        run(documents, chunk={"size": 100})[0]["chunk_id"],
        run(documents, embed={"model": "fake:9"})[0]["chunk_id"],
    }
    assert len(ids) == 3
    assert run(documents)[0]["chunk_id"] == run(documents, retrieve={"top_k": 5})[0]["chunk_id"]


def test_a_tokenizer_to_which_the_first_word_is_another(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(BYTE_LEVEL), encoding="utf-8")
    documents = Made().add("word " * 60).documents()
    for strategy in ("fixed", "sentence", "recursive", "section"):
        chunk = {"strategy": strategy, "size": 16, "overlap": 2, "min_size": 4}
        rows = run(documents, chunk=chunk, embed={"model": str(tmp_path)})
        parts = [row for row in rows if row["searchable"]]
        # "word" alone is w, or, d: two more than "Ġword". So 14 words are 16 tokens.
        assert max(row["tokens"] for row in parts) <= 16
        assert len(parts) >= 5
        words = sum(len(row["text"].split()) for row in parts)
        assert 60 <= words <= 60 + 2 * len(parts)
