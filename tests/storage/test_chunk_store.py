import numpy as np
import pyarrow as pa
import pytest

from rag_cluster.schema import CHUNK, rows_to_table, shard_of
from rag_cluster.storage import ChunkStore


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


def test_facts_know_their_chunk_and_chunks_their_neighbours() -> None:
    def fact(doc: str, ordinal: int, parent: str) -> dict[str, object]:
        return chunk(doc, ordinal, kind="proposition", parent_id=parent, section_path="S")

    rows = [
        chunk("a", 0, kind="section", searchable=False, section_path="S"),
        chunk("a", 1, parent_id="a-0", section_path="S", searchable=False),
        fact("a", 2, "a-1"),
        fact("a", 3, "a-1"),
        chunk("a", 4, parent_id="a-0", section_path="S"),
        chunk("a", 5, parent_id="a-0", section_path="S", searchable=False),
        fact("a", 6, "a-5"),
        chunk("b", 0, section_path="S", searchable=False),
        fact("b", 1, "b-0"),
    ]
    made = store(rows, 3)
    assert made.sources is not None
    names = made.table.column("chunk_id").to_pylist()
    meant = {name: names[row] for name, row in zip(names, made.sources.tolist(), strict=True)}
    assert {name: source for name, source in meant.items() if name != source} == {
        "a-2": "a-1", "a-3": "a-1", "a-6": "a-5", "b-1": "b-0",
    }  # fmt: skip
    near = {name: [names[row] for row in made.neighbours(made.row_of(name), 1)] for name in names}
    assert near["a-1"] == ["a-4"]
    assert near["a-4"] == ["a-1", "a-5"]
    assert near["a-5"] == ["a-4"]
    assert near["b-0"] == near["a-0"] == []
    assert made.parent(made.row_of("a-1")) == made.row_of("a-0")
    assert store(ROWS, 2).sources is None
    assert store(ROWS, 2).neighbours(store(ROWS, 2).row_of("a-0"), 1) == []


def test_passages_keep_order_and_rank_from_one() -> None:
    made = store(ROWS, 2)
    rows = np.array([made.row_of("c-0"), made.row_of("a-3")])
    first, second = made.passages(rows, np.array([0.5, 0.25]))
    assert (first.rank, first.chunk_id, first.score, first.pages) == (1, "c-0", 0.5, None)
    assert (second.rank, second.chunk_id, second.pages) == (2, "a-3", (2, 3))


def test_empty_store() -> None:
    made = ChunkStore([CHUNK.empty_table(), CHUNK.empty_table()])
    assert len(made) == 0
    assert made.passages(np.empty(0, np.int64), np.empty(0)) == []
    assert isinstance(made.table, pa.Table)
