from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from rag_cluster.errors import CollectionError
from rag_cluster.storage import (
    checksum,
    file_entries,
    local_copy,
    place,
    read_shard,
    read_table,
    write_file,
    write_table,
)
from rag_cluster.storage.files import files_in, folders, remove, sizes, write_text
from rag_cluster.storage.places import is_local


def make_folder(path: Path) -> None:
    (path / "sub").mkdir(parents=True)
    (path / "a").write_bytes(b"abc")
    (path / "sub" / "b").write_bytes(b"hello")


def test_tables_files_and_folders_are_written_whole_and_read_back(home: str) -> None:
    path = place(home)
    assert is_local(path) == (not home.startswith("s3://"))
    table = pa.table({"n": [1, 2, 3], "x": ["a", "b", "c"]})
    write_table(table, path / "t" / "shard-00000.parquet", row_group_size=1)
    found = read_table(path / "t" / "shard-00000.parquet", columns=["x"], filters=[("n", "=", 2)])
    assert found.to_pylist() == [{"x": "b"}]
    for _ in range(2):  # a second time in place of the first
        write_file(path / "lexical" / "shard-00000", make_folder)
    entries = file_entries(path, [path / "lexical" / "shard-00000"])
    assert entries == {
        "lexical/shard-00000/a": {"bytes": 3, "blake2b": "cf4ab791c62b8d2b2109c90275287816"},
        "lexical/shard-00000/sub/b": {
            "bytes": 5, "blake2b": checksum(path / "lexical" / "shard-00000" / "sub" / "b")
        },
    }  # fmt: skip
    write_text(path / "CURRENT", "v1\n")
    assert folders(path) == ["lexical", "t"]
    assert folders(path / "none") == []
    assert [p.name for p in files_in(path / "t", ".parquet")] == ["shard-00000.parquet"]
    assert files_in(path) == [path / "CURRENT"]
    remove(path / "lexical")
    remove(path / "lexical")
    assert [p.name for p, _ in sizes(path)] == ["CURRENT", "shard-00000.parquet"]


def test_a_write_that_fails_leaves_what_was_there(home: str) -> None:
    path = place(home) / "f"
    write_file(path, lambda p: p.write_text("before"))

    def fail(temporary: Path) -> None:
        temporary.write_text("half")
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        write_file(path, fail)
    assert path.read_text() == "before"
    assert [file for file, _ in sizes(place(home))] == [path]


def test_a_shard_that_is_missing_or_damaged_is_named(home: str) -> None:
    path = place(home) / "shard-00000.parquet"
    with pytest.raises(CollectionError, match=r"shard-00000\.parquet cannot be read: .*Go back"):
        read_shard(path)
    write_file(path, lambda p: p.write_bytes(b"not Parquet"))
    with pytest.raises(CollectionError, match="cannot be read"):
        read_shard(path)


def test_a_local_path_is_its_own_copy(tmp_path: Path) -> None:
    assert local_copy(tmp_path / "none") == tmp_path / "none"


def test_a_remote_file_is_copied_once_and_again_when_it_changed(bucket: str) -> None:
    path = place(f"{bucket}/c/dense/shard-00000.faiss")
    write_file(path, lambda p: p.write_bytes(b"one"))
    first = local_copy(path)
    made = first.stat().st_mtime_ns
    assert first.read_bytes() == b"one"
    assert local_copy(path) == first
    assert first.stat().st_mtime_ns == made
    write_file(path, lambda p: p.write_bytes(b"two"))
    assert local_copy(path).read_bytes() == b"two"
    with pytest.raises(CollectionError, match=r"none\.faiss is missing"):
        local_copy(path.parent / "none.faiss")


def test_a_copied_folder_is_verified_against_the_manifest(bucket: str) -> None:
    path = place(f"{bucket}/c/lexical/shard-00000")
    write_file(path, make_folder)
    entries = file_entries(path, [path])
    copy = local_copy(path, entries)
    assert (copy / "sub" / "b").read_bytes() == b"hello"
    (copy / "a").unlink()  # someone cleaned up half of the cache
    assert (local_copy(path, entries) / "a").read_bytes() == b"abc"
    wrong = entries | {"a": {"bytes": 3, "blake2b": "0"}}
    with pytest.raises(CollectionError, match="a differs from its checksum in the manifest"):
        local_copy(path, wrong)
    with pytest.raises(CollectionError, match="a has 3 bytes and not 4"):
        local_copy(path, entries | {"a": {"bytes": 4, "blake2b": "0"}})


def test_many_may_copy_at_once(bucket: str) -> None:
    path = place(f"{bucket}/c/lexical/shard-00001")
    write_file(path, make_folder)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(local_copy(path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert [p.name for p in found[0].parent.iterdir()] == [found[0].name]
