from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_cluster.config import Parse
from rag_cluster.parse.formats import parse_file
from rag_cluster.parse.records import parse_jsonl, parse_part
from rag_cluster.schema import DOCUMENT, document_id, rows_to_table

URI = "/data/corpus.jsonl"
CONFIG = Parse()


def test_a_record_is_a_document() -> None:
    line = {
        "_id": "d1",
        "title": "A title",
        "text": "# no heading\nbody\x00",
        "year": 2020,
        "x": None,
    }
    (row,) = parse_file(json.dumps(line).encode() + b"\n", URI, CONFIG)
    assert row["doc_id"] == document_id("d1")
    assert row["uri"] == f"{URI}#d1"
    assert (row["title"], row["text"], row["status"]) == ("A title", "# no heading\nbody", "ok")
    assert json.loads(row["metadata"]) == {"year": 2020}
    assert [section["level"] for section in row["sections"]] == [0]
    assert rows_to_table([row], DOCUMENT).num_rows == 1


@pytest.mark.parametrize(
    ("record", "status", "text", "title"),
    [
        ({"_id": "1", "title": "only title", "text": ""}, "ok", "only title", "only title"),
        ({"_id": "1", "title": "", "text": None}, "empty", "", ""),
        ({"_id": 7, "text": 12.5}, "ok", "12.5", ""),
        ({"_id": "1", "text": ["one", "two"]}, "ok", "one\n\ntwo", ""),
        ({"text": "no id"}, "ok", "no id", ""),
        ({"_id": "1", "text": "half \ud800"}, "ok", "half \ufffd", ""),
    ],
)
def test_odd_records(record: dict[str, object], status: str, text: str, title: str) -> None:
    (row,) = parse_jsonl(json.dumps(record).encode(), URI, CONFIG)
    assert (row["status"], row["text"], row["title"]) == (status, text, title)


def test_what_is_malformed_is_a_failed_row_with_its_line() -> None:
    data = b'\xef\xbb\xbf{"_id": "a", "text": "t"}\n\n{"_id": "b", "text":\n[1]\n'
    data += b'{"_id": "c", "body": "x"}\n'
    good, bad, listed, other = parse_jsonl(data, URI, CONFIG)
    assert (good["uri"], good["status"]) == (f"{URI}#a", "ok")
    assert (bad["uri"], bad["error"]) == (f"{URI}#line-3", "malformed record")
    assert bad["detail"].startswith("line 3: Expecting value")
    assert listed["detail"] == "line 4: it holds a list, not an object"
    assert (other["status"], other["error"]) == ("failed", "record without text")
    assert "'text' (parse.record_text) is absent; there are: _id, body" in other["detail"]


def test_the_fields_are_the_configurations() -> None:
    config = Parse(record_id="key", record_text="body", record_title="name")
    (row,) = parse_jsonl(b'{"key": "k", "body": "b", "name": "n", "text": "t"}', URI, config)
    assert (row["uri"], row["text"], row["title"]) == (f"{URI}#k", "b", "n")
    assert json.loads(row["metadata"]) == {"text": "t"}


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 40), max_size=12),
    part=st.integers(1, 60),
    trailing=st.booleans(),
)
def test_parts_give_each_line_once_with_its_number(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], part: int, trailing: bool
) -> None:
    lines = [b"x" * n if n % 3 else b'{"text":"%d"}' % n for n in lengths]
    data = b"\n".join(lines) + (b"\n" if trailing else b"")
    path = tmp_path_factory.mktemp("parts") / "a.jsonl"
    path.write_bytes(data)
    rows = [
        row
        for start in range(0, len(data), part)
        for row in parse_part(str(path), URI, start, min(start + part, len(data)), CONFIG)
    ]
    assert rows == parse_jsonl(data, URI, CONFIG)


def test_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "_id": ["a", None, "c"],
            "text": ["one", "two", ""],
            "title": ["A", "B", ""],
            "n": [1, 2, 3],
        }
    )
    path = tmp_path / "c.parquet"
    pq.write_table(table, path, row_group_size=1)
    rows = parse_file(path.read_bytes(), str(path), CONFIG)
    assert [row["uri"] for row in rows] == [f"{path}#a", f"{path}#row-2", f"{path}#c"]
    assert [row["status"] for row in rows] == ["ok", "ok", "empty"]
    assert json.loads(rows[0]["metadata"]) == {"n": 1}
    parts = [row for n in range(3) for row in parse_part(str(path), str(path), n, n + 1, CONFIG)]
    assert parts == rows


def test_a_damaged_parquet_is_a_failed_row() -> None:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"text": ["a"]}), buffer)
    (row,) = parse_file(buffer.getvalue()[:-20], "/c.parquet", CONFIG)
    assert (row["status"], row["error"]) == ("failed", "damaged")


def test_numbers_that_json_does_not_have_are_null() -> None:
    line = b'{"_id": "a", "text": "x", "high": NaN, "low": {"a": [Infinity, 1.5]}}\n'
    [row] = parse_jsonl(line, "r.jsonl", Parse())
    assert json.loads(row["metadata"], parse_constant=str) == {
        "high": None,
        "low": {"a": [None, 1.5]},
    }
