from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from rag_cluster.config import Config, build
from rag_cluster.parse.sources import list_files
from rag_cluster.parse.stage import Parser
from rag_cluster.schema import DOCUMENT, document_id


@pytest.fixture
def parser() -> Iterator[Parser]:
    parser = Parser(Config())
    yield parser
    parser.close()


def test_each_file_has_a_row(tmp_path: Path, parser: Parser) -> None:
    (tmp_path / "a.md").write_text("# A\n\ntext")
    (tmp_path / "b.txt").write_bytes(b"")
    (tmp_path / "c.jsonl").write_text('{"_id": "1", "text": "x"}\n{"_id": "2", "text": "y"}\n')
    (tmp_path / "d.exe").write_bytes(b"MZ\x00\x00\x01")
    (tmp_path / "e.txt").symlink_to(tmp_path / "nowhere")
    files = list_files([str(tmp_path)], Config())
    table = parser(files)
    assert table.schema.equals(DOCUMENT)
    assert table["status"].to_pylist() == ["ok", "empty", "ok", "ok", "failed", "failed"]
    assert table["error"].to_pylist()[-2:] == ["unsupported type", "cannot be read"]
    assert table["detail"].to_pylist()[-1] == "No such file or directory"
    again = parser(files)
    assert again.equals(table)


def test_parts_of_a_file_give_all_its_records(tmp_path: Path) -> None:
    config = build({"parse": {"record_part_mb": 1}})
    line = '{"_id": "%d", "text": "' + "word " * 200 + '"}\n'
    (tmp_path / "c.jsonl").write_text("".join(line % n for n in range(2500)) + "{broken\n")
    files = list_files([str(tmp_path)], config)
    assert files.num_rows == 3
    parser = Parser(config)
    table = parser(files)
    parser.close()
    assert table.num_rows == 2501
    assert table["uri"].to_pylist()[2500].endswith("#line-2501")
    assert len(set(table["doc_id"].to_pylist())) == 2501


def test_a_file_over_the_time_limit_costs_one_row(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A\n\ntext")
    (tmp_path / "b.md").write_text("- item\n" * 300_000)
    (tmp_path / "c.md").write_text("# C\n\ntext")
    config = build({"parse": {"timeout_s": 4}})
    parser = Parser(config)
    table = parser(list_files([str(tmp_path)], config))
    parser.close()
    assert table["status"].to_pylist() == ["ok", "failed", "ok"]
    assert table["error"][1].as_py() == "timed out"
    assert table["uri"].to_pylist() == [str(tmp_path / name) for name in ("a.md", "b.md", "c.md")]


def test_a_pipe_is_not_waited_for(tmp_path: Path, parser: Parser) -> None:
    os.mkfifo(tmp_path / "a.txt")
    (row,) = parser(list_files([str(tmp_path)], Config())).to_pylist()
    assert (row["error"], row["detail"]) == ("cannot be read", "not a regular file")


def test_an_unused_parser_can_be_sent_to_a_worker() -> None:
    parser = pickle.loads(pickle.dumps(Parser(Config())))
    assert isinstance(parser, Parser)


def test_metadata_of_another_type_fails_the_document_where_that_is_asked(tmp_path: Path) -> None:
    rows = [{"_id": "a", "text": "x", "year": 2020}, {"_id": "b", "text": "y", "year": "unknown"}]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tree = {"metadata": {"fields": {"year": "int"}, "mismatch": "fail"}}
    parser = Parser(build(tree))
    table = parser(list_files([str(tmp_path)], build(tree)))
    parser.close()
    assert table["status"].to_pylist() == ["ok", "failed"]
    assert table["error"].to_pylist()[1] == "metadata of another type"
    assert table["detail"].to_pylist()[1] == "year: 'unknown' is no int"
    assert table["doc_id"].to_pylist()[1] == document_id("b")
    dropped = Parser(build({"metadata": {"fields": {"year": "int"}}}))
    assert dropped(list_files([str(tmp_path)], Config()))["status"].to_pylist() == ["ok", "ok"]
    dropped.close()


def test_a_file_that_crashes_its_parser_is_tried_again(tmp_path: Path) -> None:
    config = build({"parse": {"memory_mb": 256, "retries": 2}})
    (tmp_path / "big.txt").write_bytes(b"word " * 80_000_000)
    parser = Parser(config)
    table = parser(list_files([str(tmp_path)], config))
    parser.close()
    assert table["error"].to_pylist() == ["out of memory"]
    assert table["detail"].to_pylist()[0].endswith("tried 3 times")


def test_names_that_are_hard_to_write(tmp_path: Path) -> None:
    names = ["with space.md", "100%25.md", "#1.md", "r[0:10].md", "日本語.md", "a.md", "A.md"]
    for name in names:
        (tmp_path / name).write_text(f"# {name}")
    parser = Parser(Config())
    table = parser(list_files([str(tmp_path)], Config()))
    parser.close()
    assert set(table["status"].to_pylist()) == {"ok"}
    assert sorted(Path(uri).name for uri in table["uri"].to_pylist()) == sorted(names)
    assert len(set(table["doc_id"].to_pylist())) == len(names)


def test_a_file_without_records_is_a_row_and_a_repeated_line_one_document(tmp_path: Path) -> None:
    (tmp_path / "blank.jsonl").write_text("\n\n")
    (tmp_path / "twice.jsonl").write_text('{"_id": "a", "text": "x"}\n' * 2)
    parser = Parser(Config())
    table = parser(list_files([str(tmp_path)], Config()))
    parser.close()
    assert table["status"].to_pylist() == ["empty", "ok", "ok"]
    assert table["error"].to_pylist()[0] == "no records"
    assert [source["documents"] for source in table["source"].to_pylist()] == [1, 1, 1]


def test_records_in_utf16_are_not_cut_into_parts(tmp_path: Path) -> None:
    config = build({"parse": {"record_part_mb": 1}})
    line = '{"_id": "%d", "text": "' + "word " * 2000 + '"}\n'
    text = "".join(line % n for n in range(100))
    (tmp_path / "c.jsonl").write_bytes(text.encode("utf-16"))
    parser = Parser(config)
    table = parser(list_files([str(tmp_path)], config))
    parser.close()
    assert table["status"].to_pylist() == ["ok"] * 100
