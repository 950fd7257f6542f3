"""Vectors that are taken from where an equal text has one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rag_cluster import config
from rag_cluster.embed import Embedder
from rag_cluster.hashes import Hashes, as_words, digest
from rag_cluster.index import reuse
from rag_cluster.schema import CHUNK, rows_to_table
from rag_cluster.storage import write_table
from rag_cluster.work import part_schema

DIM = 32
SETTINGS = config.load(None, [f"embed.model=fake:{DIM}"])


def chunks(*texts: str, **columns: Any) -> pa.Table:
    base = {"uri": "a.txt", "doc_id": "d", "content_hash": "h", "searchable": True, "context": "",
            "header": ""}  # fmt: skip
    rows = [
        base | {"chunk_id": f"c{i}", "start": i, "end": i + 1, "text": text} | columns
        for i, text in enumerate(texts)
    ]
    return rows_to_table(rows, CHUNK)


def part(folder: Path, table: pa.Table) -> Path:
    path = folder / "chunks" / "shard-00000" / "part.parquet"
    write_table(table.cast(part_schema({}, DIM)), path)
    return path


def test_texts_that_have_a_vector_are_marked_and_found_again(tmp_path: Path) -> None:
    first = part(tmp_path / "1", Embedder(SETTINGS)(chunks("one", "two")))
    known = Hashes(reuse.held_hashes([first]))
    table = Embedder(SETTINGS, known=known)(chunks("two", "three"))
    assert table["reused"].to_pylist() == [True, False]
    second = part(tmp_path / "2", table)
    wanted = reuse.find_wanted([second])
    assert wanted.tolist() == as_words([digest("two")]).tolist()
    places = reuse.Places.merged([reuse.locate([second], wanted), reuse.locate([first], wanted)])
    asked = as_words([digest("two"), digest("absent")])
    taken, found = places.take(asked, ["vector", "truncated"])
    assert found.tolist() == [True, False]
    assert taken["truncated"].to_pylist() == [0, None]
    expected = Embedder(SETTINGS)(chunks("two"))["vector"][0].as_py()
    assert taken["vector"].to_pylist() == [expected, None]
    assert reuse.Places.none().take(asked, ["vector"])[1].tolist() == [False, False]


def test_a_text_that_another_worker_took_on_is_left_to_it() -> None:
    embedder = Embedder(SETTINGS, claim=lambda words, _: np.arange(len(words)) > 0)
    table = embedder(chunks("a", "b", "a"))
    assert table["reused"].to_pylist() == [True, False, True]
    assert [v.is_valid for v in table["vector"]] == [False, True, False]


def test_a_file_with_another_name_keeps_its_vectors(tmp_path: Path) -> None:
    before = Embedder(SETTINGS)(chunks("text", context="old name"))
    write_table(before.select(CHUNK.names), tmp_path / "chunks.parquet")
    write_table(before.select(["vector", "text_hash"]), tmp_path / "vectors.parquet")
    paths = [(tmp_path / "chunks.parquet", tmp_path / "vectors.parquet")]
    moved = reuse.moved_texts(paths, frozenset({"h"}))
    known = Hashes(as_words([digest("old name\ntext")]))
    embedder = Embedder(SETTINGS, known=known, moved=moved)
    table = embedder(chunks("text", "more", context="new name"))
    assert table["reused"].to_pylist() == [True, False]
    assert table["text_hash"].to_pylist() == [digest("old name\ntext"), digest("new name\nmore")]
    assert embedder(chunks("edited", context="new name"))["reused"].to_pylist() == [False]
    other = reuse.moved_texts(paths, frozenset({"another content"}))
    assert other.find(as_words([b"x" * 16]))[0].tolist() == [False]


def test_rows_of_texts_that_nobody_encoded(tmp_path: Path) -> None:
    lost = Embedder(SETTINGS, claim=lambda words, _: np.zeros(len(words), bool))
    path = part(tmp_path, lost(chunks("a", "b", "a")))
    wanted = reuse.find_wanted([path])
    rows = reuse.rows_of([path], wanted, CHUNK)
    assert rows["text"].to_pylist() == ["a", "b", "a"]
    assert rows.schema.equals(CHUNK)
