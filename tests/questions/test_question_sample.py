"""Which chunks are drawn: stratified, seeded, the same for any number of shards."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sampled import document, publish

from rag_cluster.errors import UsageError
from rag_cluster.questions.draw import Draw
from rag_cluster.questions.frame import Chunks, Frame, read_frame
from rag_cluster.storage import Collection

LONG = [document("long", 40), document("middle", 6), document("short", 2), document("single", 1)]


def frame_of(home: Path, **options: Any) -> tuple[Collection, Frame]:
    opened = Collection.open(home)
    settings: dict[str, Any] = {"seed": 1, "by": None, "min_words": 4, "roles": ["contents"]}
    return opened, read_frame(opened, **(settings | options))


def drawn(home: Path, count: int, **options: Any) -> list[str]:
    """The uris of the first chunks drawn."""
    return [uri for uri, _ in drawn_chunks(home, count, **options)]


def drawn_chunks(home: Path, count: int, **options: Any) -> list[tuple[str, str]]:
    opened, frame = frame_of(home, **options)
    draw = Draw(frame)
    chunks = [chunk for _ in range(count) if (chunk := draw.next()) is not None]
    rows = Chunks(opened).rows([(int(frame.shard[c]), int(frame.row[c])) for c in chunks])
    return [(row["uri"], row["text"]) for row in rows]


def test_documents_take_turns_whatever_their_length(tmp_path: Path) -> None:
    publish(str(tmp_path), LONG)
    uris = drawn(tmp_path, 12)
    assert len(set(uris[:4])) == 4
    # 12 = 4 + 3 (the single one is used up) + 2 + 2 + 1
    counts = Counter(uris)
    assert counts["/corpus/single.txt"] == 1
    assert counts["/corpus/short.txt"] == 2
    assert abs(counts["/corpus/long.txt"] - counts["/corpus/middle.txt"]) <= 1


def test_each_chunk_is_drawn_once_and_then_none(tmp_path: Path) -> None:
    publish(str(tmp_path), LONG, shards=3)
    found = drawn_chunks(tmp_path, 1000)
    assert len(found) == len(set(found)) == 49


def test_the_sample_is_of_the_seed_and_not_of_the_shards(tmp_path: Path) -> None:
    publish(str(tmp_path / "one"), LONG)
    publish(str(tmp_path / "three"), LONG[::-1], shards=3)
    first = drawn_chunks(tmp_path / "one", 10)
    assert first == drawn_chunks(tmp_path / "three", 10)
    assert first != drawn_chunks(tmp_path / "one", 10, seed=2)


def test_values_of_a_field_take_turns(tmp_path: Path) -> None:
    documents = [document(f"old{i}", 3, year=2001) for i in range(20)]
    documents += [document("new", 30, year=2024), document("none", 30)]
    publish(str(tmp_path), documents, shards=2, fields={"year": "int"})
    assert sum("old" not in uri for uri in drawn(tmp_path, 9)) < 4
    counts = Counter(re.sub(r"\d*\.txt", "", uri) for uri in drawn(tmp_path, 9, by="year"))
    assert counts == {"/corpus/old": 3, "/corpus/new": 3, "/corpus/none": 3}
    _, frame = frame_of(tmp_path, by="year")
    assert sorted(frame.strata) == ["(none)", "2001", "2024"]


def test_the_next_one_is_of_the_document_then_of_the_stratum_then_of_any(tmp_path: Path) -> None:
    documents = [document("a", 2, year=1), document("b", 1, year=1), document("c", 1, year=2)]
    publish(str(tmp_path), documents, fields={"year": "int"})
    opened, frame = frame_of(tmp_path, by="year")
    names = [row["title"] for row in Chunks(opened).rows([(0, i) for i in range(4)])]
    draw, chain = Draw(frame), [names.index("a")]
    while (chunk := draw.after(chain[-1])) is not None:
        chain.append(chunk)
    assert [names[chunk] for chunk in chain[1:]] == ["a", "a", "b", "c"]


def test_what_cannot_be_asked_about_is_left_out_and_counted(tmp_path: Path) -> None:
    documents = [
        document("good", 2),
        document("contents", 1, columns={"role": "contents"}),
        document("parent", 1, columns={"searchable": False}),
        document("copy", 1, duplicate_of="d"),
        document("tiny", ["Bolts."]),
    ]
    publish(str(tmp_path), documents, shards=2)
    _, frame = frame_of(tmp_path)
    assert (frame.chunks, len(frame)) == (5, 2)
    assert frame.left_out == {
        "in a section that is never returned": 1,
        "in a document that nearly equals another": 1,
        "few words": 1,
    }


def test_facts_are_asked_about_by_the_chunk_that_they_were_rewritten_from(tmp_path: Path) -> None:
    source = document("borea", 1, columns={"searchable": False})
    publish(str(tmp_path / "plain"), [source])
    (row,) = Chunks(Collection.open(tmp_path / "plain")).rows([(0, 0)])
    fact = {"kind": "proposition", "parent_id": row["chunk_id"], "chunk_id": "fact"}
    publish(str(tmp_path / "c"), [source, document("fact", 1, columns=fact)])
    opened, frame = frame_of(tmp_path / "c")
    assert frame.chunks == len(frame) == 1
    assert Chunks(opened).rows([(0, int(frame.row[0]))])[0]["title"] == "borea"


def test_an_empty_collection_gives_nothing(tmp_path: Path) -> None:
    publish(str(tmp_path), [])
    assert drawn(tmp_path, 3) == []


def test_a_field_that_was_not_declared_is_refused(tmp_path: Path) -> None:
    publish(str(tmp_path), LONG, fields={"year": "int"})
    with pytest.raises(UsageError, match=r"--by maker.*no such metadata field \(declared: year\)"):
        frame_of(tmp_path, by="maker")
