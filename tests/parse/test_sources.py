from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_cluster.config import Config, build
from rag_cluster.errors import SourceError
from rag_cluster.parse.sources import list_files, path_of, skipped, uri_of
from rag_cluster.schema import FILE

CONFIG = Config()


def names(table: pa.Table, root: Path) -> list[str]:
    return [os.path.relpath(uri, root) for uri in table["uri"].to_pylist()]


def write(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(f"text of {path}")


def test_a_folder_is_listed_in_order_and_what_is_passed_over_is_counted(tmp_path: Path) -> None:
    write(tmp_path, "b.txt", "a/z.md", "a/.hidden", ".git/config", "Thumbs.db", "~$b.docx", "x.png")
    write(tmp_path, ".notes.md")
    table = list_files([str(tmp_path)], CONFIG)
    assert table.schema.equals(FILE)
    assert names(table, tmp_path) == [".notes.md", "a/z.md", "b.txt", "x.png"]
    assert skipped(table) == {"hidden": 1, "hidden folder": 1, "system file": 2}
    row = table.to_pylist()[2]
    assert row["size"] == len("text of b.txt")
    assert row["part_start"] is None
    assert row["modified"].timestamp() == pytest.approx((tmp_path / "b.txt").stat().st_mtime)


def test_a_file_named_twice_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a/b.txt", ".c")
    monkeypatch.chdir(tmp_path)
    sources = ["a", "a/b.txt", str(tmp_path / "a"), ".c"]
    assert names(list_files(sources, CONFIG), tmp_path) == [".c", "a/b.txt"]


def test_the_etag_changes_with_the_file(tmp_path: Path) -> None:
    write(tmp_path, "a.txt")
    before = list_files([str(tmp_path)], CONFIG)["etag"].to_pylist()
    assert before == list_files([str(tmp_path)], CONFIG)["etag"].to_pylist()
    (tmp_path / "a.txt").write_text("other")
    assert before != list_files([str(tmp_path)], CONFIG)["etag"].to_pylist()


def test_links_do_not_loop_and_a_dangling_one_is_a_row(tmp_path: Path) -> None:
    write(tmp_path, "a/b.txt")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere.txt")
    table = list_files([str(tmp_path)], CONFIG)
    assert names(table, tmp_path) == ["a/b.txt", "gone.txt"]
    assert skipped(table) == {"folder seen before": 1}


def test_collections_and_evaluation_files_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "col/CURRENT", "col/versions/1/manifest.json", "beir/corpus.jsonl")
    write(tmp_path, "beir/queries.jsonl", "beir/qrels/test.tsv", "alone/corpus.jsonl")
    table = list_files([str(tmp_path)], CONFIG)
    assert names(table, tmp_path) == ["alone/corpus.jsonl", "beir/corpus.jsonl"]
    assert skipped(table) == {"collection": 1, "evaluation data": 1}


def test_what_is_not_there_is_an_error_that_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no such file or folder: 'none' \(looked for /"):
        list_files(["none"], CONFIG)
    write(tmp_path, ".hidden")
    with pytest.raises(SourceError, match=r"no file to ingest in '.*' \(passed over: 1 hidden\)"):
        list_files([str(tmp_path)], CONFIG)
    with pytest.raises(SourceError, match="no file system has the protocol nowhere://"):
        list_files(["nowhere://bucket/key"], CONFIG)
    with pytest.raises(SourceError, match=r"no such object or prefix: memory://none/at/all"):
        list_files(["memory://none/at/all"], CONFIG)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "closed/b.txt")
    (tmp_path / "closed").chmod(0)
    try:
        with pytest.raises(SourceError, match=r"cannot read the folder .*closed"):
            list_files([str(tmp_path)], CONFIG)
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_a_name_that_is_not_utf8_can_be_listed_and_opened(tmp_path: Path) -> None:
    try:
        (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("x")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    (uri,) = list_files([str(tmp_path)], CONFIG)["uri"].to_pylist()
    assert uri.startswith("file:///")
    assert Path(path_of(uri)).read_text() == "x"
    assert uri_of("/a b/é.txt") == "/a b/é.txt" == path_of("/a b/é.txt")


def test_large_files_of_records_are_cut_into_parts(tmp_path: Path) -> None:
    config = build({"parse": {"record_part_mb": 1}})
    line = b'{"_id": "x", "text": "' + b"a" * 1000 + b'"}\n'
    (tmp_path / "c.jsonl").write_bytes(line * 2500)
    (tmp_path / "d.txt").write_bytes(b"plain words\n" * 200_000)
    table = pa.table({"text": [os.urandom(500).hex() for _ in range(3000)]})
    pq.write_table(table, tmp_path / "e.parquet", row_group_size=500)
    parts: dict[str, list[tuple[int | None, int | None]]] = {}
    for row in list_files([str(tmp_path)], config).to_pylist():
        parts.setdefault(Path(row["uri"]).name, []).append((row["part_start"], row["part_end"]))
    mib = 1024 * 1024
    size = len(line) * 2500
    assert parts["c.jsonl"] == [(0, mib), (mib, 2 * mib), (2 * mib, size)]
    assert parts["d.txt"] == [(None, None)]
    groups = parts["e.parquet"]
    assert len(groups) > 1
    assert [start for start, _ in groups] == [0, *(end for _, end in groups[:-1])]
    assert groups[-1][1] == 6
