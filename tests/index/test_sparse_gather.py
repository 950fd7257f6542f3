"""Learned sparse vectors are kept, replaced, reused and left out as the dense ones beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from gathering import documents, gather, rows, run

from rag_cluster import config
from rag_cluster.hashes import Hashes
from rag_cluster.index import sparse
from rag_cluster.index.reuse import find_wanted, held_hashes, locate
from rag_cluster.models.sparse import FakeSparseEncoder
from rag_cluster.storage import read_table, shard_name
from rag_cluster.work import CHUNKS, file_digest, part_files

SETTINGS = config.load(
    None, ["embed.model=fake:32", "sparse.model=fake:1000", "chunk.size=12", "enrich.kind=none"]
)
TEXTS = {name: f"The {name} is {colour}." for name, colour in
         (("rose", "red"), ("sky", "blue"), ("leaf", "green"), ("sun", "yellow"))}  # fmt: skip


def made(folder: Path, texts: dict[str, str], shards: int = 1, **job: Any) -> Any:
    table = documents(texts)
    run(folder / "work", table, settings=SETTINGS)
    return gather(folder, table, shards, settings=SETTINGS, **job)


def sparse_of(folder: Path, shards: int = 1) -> dict[str, tuple[list[int], list[float]]]:
    """The sparse vector of each text."""
    texts = {row["chunk_id"]: row["text"] for row in rows(folder, "chunks", shards)}
    found = rows(folder, "vectors", shards)
    return {texts[row["chunk_id"]]: (row["terms"], row["weights"]) for row in found}


def expected(texts: list[str]) -> dict[str, tuple[list[int], list[float]]]:
    vectors = FakeSparseEncoder(1000).encode(texts)
    return {
        text: (v.terms.tolist(), v.weights.tolist()) for text, v in zip(texts, vectors, strict=True)
    }


def test_each_chunk_has_its_own_and_keeps_it_in_other_shards(tmp_path: Path) -> None:
    [found] = made(tmp_path / "1", TEXTS)
    own = expected(list(TEXTS.values()))
    assert sparse_of(tmp_path / "1") == own
    assert found.weights == sum(len(terms) for terms, _ in own.values())
    old = {"old": tmp_path / "1" / "version", "old_shards": 1}
    parts = gather(tmp_path / "3", documents(TEXTS), 3, settings=SETTINGS, **old)
    assert sparse_of(tmp_path / "3", 3) == own
    assert sum(part.weights for part in parts) == found.weights


def test_changed_documents_are_replaced_and_the_others_keep_theirs(tmp_path: Path) -> None:
    made(tmp_path / "1", TEXTS)
    gone = Hashes.of(file_digest(name, None) for name in ("rose", "sky"))
    old = {"old": tmp_path / "1" / "version", "old_shards": 1}
    made(tmp_path / "2", {"rose": "The rose is white."}, gone=gone, **old)
    kept = [TEXTS["leaf"], TEXTS["sun"]]
    assert sparse_of(tmp_path / "2") == expected([*kept, "The rose is white."])


def test_an_equal_text_takes_both_vectors_from_where_they_are(tmp_path: Path) -> None:
    made(tmp_path / "1", {"a": "Same text here."})
    known = part_files(tmp_path / "1" / "work", CHUNKS, 0)
    table = documents({"b": "Same text here.", "c": "Another one."})
    held = Hashes(held_hashes(known))
    run(tmp_path / "2" / "work", table, settings=SETTINGS, known=held)
    places = locate(known, find_wanted(part_files(tmp_path / "2" / "work", CHUNKS, 0)))
    gather(tmp_path / "2", table, settings=SETTINGS, places=places)
    assert sparse_of(tmp_path / "2") == expected(["Same text here.", "Another one."])


def test_in_late_chunking_it_is_of_the_chunks_own_context(tmp_path: Path) -> None:
    """There a vector is reused by the text around it, whatever stands in the context."""
    late = ["embed.mode=late", "enrich.kind=heading", "enrich.max_tokens=8"]
    settings = config.load(None, late, base=SETTINGS.model_dump(mode="json"))
    run(tmp_path / "1", documents({"pump.txt": "Same text here."}), settings=settings)
    known = part_files(tmp_path / "1", CHUNKS, 0)
    table = documents({"valve.txt": "Same text here."})
    run(tmp_path / "work", table, settings=settings, known=Hashes(held_hashes(known)))
    parts = part_files(tmp_path / "work", CHUNKS, 0)
    assert read_table(parts[0])["reused"].to_pylist() == [True]
    gather(tmp_path, table, settings=settings, places=locate(known, find_wanted(parts)))
    [chunk], [vector] = rows(tmp_path, "chunks"), rows(tmp_path, "vectors")
    assert "valve" in chunk["context"]
    [(terms, _)] = expected([f"{chunk['context']}\n{chunk['text']}"]).values()
    assert vector["terms"] == terms
    assert vector["vector"] == read_table(known[0])["vector"][0].as_py()


def test_what_is_left_out_as_a_duplicate_comes_back_with_its_vector(tmp_path: Path) -> None:
    once = config.load(None, ["duplicates.near=index_once"], base=SETTINGS.model_dump(mode="json"))
    table = documents({"a": "Same text here.", "b": "Same text here."})
    run(tmp_path / "1" / "work", table, settings=SETTINGS)
    first, second = sorted(table["doc_id"].to_pylist())
    duplicates = pa.table({"doc_id": [second], "duplicate_of": [first]})
    gather(tmp_path / "1", table, settings=once, duplicates=duplicates)
    assert len(rows(tmp_path / "1", "vectors")) == 1
    old = {"old": tmp_path / "1" / "version", "old_shards": 1}
    gather(tmp_path / "2", table, settings=SETTINGS, **old)
    [(terms, weights)] = expected(["Same text here."]).values()
    both = rows(tmp_path / "2", "vectors")
    assert [(row["terms"], row["weights"]) for row in both] == [(terms, weights)] * 2


def test_shards_score_as_one(tmp_path: Path) -> None:
    texts = {f"d{i}": f"star {i % 7} shines in colour {i % 5}" for i in range(60)}
    made(tmp_path / "1", texts)
    old = {"old": tmp_path / "1" / "version", "old_shards": 1}
    gather(tmp_path / "3", documents(texts), 3, settings=SETTINGS, **old)
    queries = FakeSparseEncoder(1000).encode(["star 3 in colour 2", "shines 4", "nothing"], "query")

    def scores(folder: Path, shards: int) -> list[dict[str, float]]:
        found: list[dict[str, float]] = [{} for _ in queries]
        for number in range(shards):
            path = folder / "version" / "vectors" / f"{shard_name(number)}.parquet"
            ids = read_table(path)["chunk_id"].to_pylist()
            hits = sparse.build_shard(*sparse.read_vectors(path)).search(queries, len(ids))
            for one, values, at in zip(found, *hits, strict=True):
                one |= {ids[row]: float(values[i]) for i, row in enumerate(at) if row >= 0}
        return found

    one = scores(tmp_path / "1", 1)
    assert scores(tmp_path / "3", 3) == one
    assert [len(hits) for hits in one] == [60, 60, 0]
