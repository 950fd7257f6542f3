import json
import multiprocessing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rag_cluster.errors import CollectionError
from rag_cluster.schema import CHUNK, rows_to_table, shard_of
from rag_cluster.storage import (
    ChunkStore,
    Collection,
    Writer,
    checksum,
    current_version,
    read_shard,
)


def chunk(doc: str, ordinal: int, **more: object) -> dict[str, object]:
    return {
        "chunk_id": f"{doc}-{ordinal}",
        "doc_id": doc,
        "uri": f"/x/{doc}.txt",
        "title": doc,
        "ordinal": ordinal,
        "kind": "fragment",
        "role": "body",
        "searchable": True,
        "section_path": "",
        "header": "",
        "text": f"{doc} {ordinal}",
        "context": "",
        "start": 0,
        "end": 3,
        "tokens": 2,
        **more,
    }


def store(rows: list[dict[str, object]], shards: int) -> ChunkStore:
    parts: list[list[dict[str, object]]] = [[] for _ in range(shards)]
    for row in rows:
        parts[shard_of(str(row["doc_id"]), shards)].append(row)
    for part in parts:
        part.sort(key=lambda row: (not row["searchable"], row["doc_id"], row["ordinal"]))
    return ChunkStore([rows_to_table(part, CHUNK) for part in parts])


ROWS = [
    chunk("a", 0, kind="section", searchable=False),
    chunk("a", 1, parent_id="a-0", section_path="S"),
    chunk("a", 2, parent_id="a-0", section_path="S"),
    chunk("a", 3, section_path="T", page_first=2, page_last=3),
    chunk("b", 0, section_path="S"),
    chunk("c", 0),
    chunk("d", 0),
]


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_row_order_does_not_depend_on_the_number_of_shards(shards: int) -> None:
    made = store(ROWS, shards)
    ids = made.table.column("chunk_id").to_pylist()
    assert ids == ["a-1", "a-2", "a-3", "b-0", "c-0", "d-0", "a-0"]
    assert made.searchable == 6
    assert sorted(np.concatenate(made.rows)) == list(range(7))


def test_neighbours_stay_in_their_section_and_fragments_know_their_parent() -> None:
    made = store(ROWS, 3)
    assert made.neighbours(made.row_of("a-1"), 2) == [made.row_of("a-2")]
    assert made.neighbours(made.row_of("a-3"), 2) == []
    assert made.parent(made.row_of("a-2")) == made.row_of("a-0")
    assert made.parent(made.row_of("a-3")) is None


def test_passages_keep_order_and_rank_from_one() -> None:
    made = store(ROWS, 2)
    rows = np.array([made.row_of("c-0"), made.row_of("a-3")])
    first, second = made.passages(rows, np.array([0.5, 0.25]))
    assert (first.rank, first.chunk_id, first.score, first.pages) == (1, "c-0", 0.5, None)
    assert (second.rank, second.chunk_id, second.pages) == (2, "a-3", (2, 3))


def test_a_version_is_seen_only_once_it_is_published(tmp_path: Path) -> None:
    with Writer(tmp_path / "c") as writer:
        assert current_version(writer.path) is None
        writer.publish({"format": 1, "n": 1})
    assert Collection.open(tmp_path / "c").manifest["n"] == 1
    with Writer(tmp_path / "c") as writer:
        assert writer.version == "v000002"
        (writer.folder / "half").write_text("not published")
    assert Collection.open(tmp_path / "c").version == "v000001"
    assert [p.name for p in (tmp_path / "c" / "versions").iterdir()] == ["v000001"]


def test_what_a_killed_writer_left_is_swept_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / "c" / "versions" / "v000007" / "chunks"
    left.mkdir(parents=True)
    with Writer(tmp_path / "c") as writer:
        assert not left.exists()
        writer.publish({"format": 1})


def hold(path: str, ready: object, done: object) -> None:
    with Writer(path):
        ready.set()  # type: ignore[attr-defined]
        done.wait(20)  # type: ignore[attr-defined]


def test_a_second_writer_is_refused_with_who_holds_the_lock(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(str(tmp_path / "c"), ready, done))
    other.start()
    assert ready.wait(20)
    with pytest.raises(CollectionError, match=rf"process {other.pid}, since 20"):
        Writer(tmp_path / "c").__enter__()
    other.kill()
    other.join()
    with Writer(tmp_path / "c") as writer:
        assert writer.version == "v000001"


def test_absent_newer_and_broken_collections_are_named(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="there is no collection at"):
        Collection.open(tmp_path / "none")
    folder = tmp_path / "c" / "versions" / "v000001"
    folder.mkdir(parents=True)
    (tmp_path / "c" / "CURRENT").write_text("v000001\n")
    with pytest.raises(CollectionError, match="CURRENT names v000001, which is not there"):
        Collection.open(tmp_path / "c")
    with pytest.raises(CollectionError, match=r"version v000002 is not in .*: there is none"):
        Collection.open(tmp_path / "c", "v000002")
    (folder / "manifest.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(CollectionError, match="newer version of rag-cluster"):
        Collection.open(tmp_path / "c")
    (folder / "manifest.json").write_text("{")
    with pytest.raises(CollectionError, match="cannot be read"):
        Collection.open(tmp_path / "c")


def test_a_shard_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match=r"shard-00000\.parquet cannot be read, ingest again"):
        read_shard(tmp_path / "shard-00000.parquet")
    (tmp_path / "shard-00000.parquet").write_bytes(b"not Parquet")
    with pytest.raises(CollectionError, match="cannot be read, ingest again"):
        read_shard(tmp_path / "shard-00000.parquet")


def test_checksum_is_blake2b_of_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert checksum(tmp_path / "f") == "cf4ab791c62b8d2b2109c90275287816"


def test_empty_store() -> None:
    made = ChunkStore([CHUNK.empty_table(), CHUNK.empty_table()])
    assert len(made) == 0
    assert made.passages(np.empty(0, np.int64), np.empty(0)) == []
    assert isinstance(made.table, pa.Table)
