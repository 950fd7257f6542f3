"""Near-duplicates over shards and versions, without a cluster."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gathering import SETTINGS, documents, gather, job_of, rows, run
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_cluster.config import Duplicates
from rag_cluster.hashes import Hashes, digest
from rag_cluster.index.documents import Job
from rag_cluster.index.gather import LEFT_OUT
from rag_cluster.index.near import find_duplicates, sign_shard, summary
from rag_cluster.storage import read_table
from rag_cluster.work import file_digest

STORY = " ".join(f"word{i * i % 97}x{i}" for i in range(200))
# The second of 200 words is another: 2 of 196 shingles differ, a similarity of 194 / 198 = .98.
COPY = STORY.replace("word1x1 ", "other ")
OTHER = " ".join(f"thing{i}" for i in range(200))
CHINESE = "".join(chr(0x4E00 + i * 37 % 4000) for i in range(300))
TEXTS = {
    "a": STORY, "b": OTHER, "c": COPY, "d": "Short.", "e": "short.", "f": "Short.\n",
    "g": CHINESE, "h": CHINESE.replace(CHINESE[150], "的"), "i": STORY,
}  # fmt: skip
DUPLICATES = {"c": "a", "i": "a", "f": "d", "h": "g"}
ONCE = SETTINGS.model_copy(update={"duplicates": Duplicates(near="index_once")})


def duplicates_of(job: Job) -> tuple[Job, int]:
    """The job with its near-duplicates, and how many documents were signed."""
    found = [sign_shard(shard, job) for shard in range(job.config.index.shards)]
    made = find_duplicates(found, job.folder, job.config.duplicates)
    return replace(job, duplicates=made), sum(part.new for part in found)


def names(folder: Path, job: Job) -> dict[str, str]:
    """The uri of each duplicate, and of what it is a duplicate of."""
    uri = {row["doc_id"]: row["uri"] for row in documents(TEXTS).to_pylist()}
    return {uri[row["doc_id"]]: uri[row["duplicate_of"]] for row in job.duplicates.to_pylist()}


def make(folder: Path, texts: dict[str, str], shards: int = 1, **options: Any) -> tuple[Job, int]:
    """Runs and gathers the texts as a version."""
    table = documents(texts)
    if texts:
        run(folder / "work", table, shards)
    job, signed = duplicates_of(job_of(folder, table, shards, **options))
    gather(folder, table, shards, **options, duplicates=job.duplicates)
    return job, signed


def test_near_duplicates_of_several_scripts_name_the_first_by_uri(tmp_path: Path) -> None:
    job, signed = make(tmp_path, TEXTS)
    assert signed == len(TEXTS)
    assert names(tmp_path, job) == DUPLICATES
    assert summary(job) == {"documents": 4, "clusters": 3}
    uri = {row["doc_id"]: row["uri"] for row in rows(tmp_path, "documents")}
    marked = {row["uri"]: uri.get(row["duplicate_of"]) for row in rows(tmp_path, "documents")}
    assert marked == dict.fromkeys(TEXTS) | DUPLICATES
    assert {row["uri"] for row in rows(tmp_path, "chunks")} == set(TEXTS)


@settings(max_examples=15, deadline=None)
@given(order=st.permutations(list(TEXTS)), shards=st.integers(1, 3))
def test_neither_order_nor_shards_change_what_is_a_duplicate(order: list[str], shards: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = documents({name: TEXTS[name] for name in order})
        run(Path(folder) / "work", table, shards)
        job, _ = duplicates_of(job_of(Path(folder), table, shards))
        assert names(Path(folder), job) == DUPLICATES


@settings(max_examples=15, deadline=None)
@given(
    copies=st.lists(st.text(st.sampled_from("ab 的。\n"), max_size=60), min_size=1, max_size=4),
    times=st.integers(2, 3),
)
def test_equal_texts_are_always_found(copies: list[str], times: int) -> None:
    texts = {f"{i}{time}": text for i, text in enumerate(copies) for time in range(times)}
    groups = {" ".join(text.split()) for text in copies}
    with tempfile.TemporaryDirectory() as folder:
        table = documents(texts)
        run(Path(folder) / "work", table)
        job, _ = duplicates_of(job_of(Path(folder), table))
        assert table.num_rows - job.duplicates.num_rows <= len(groups)


def test_signatures_are_kept_for_what_did_not_change(tmp_path: Path) -> None:
    make(tmp_path / "1", TEXTS, 2)
    old: dict[str, Any] = {"old": tmp_path / "1" / "version", "old_shards": 2}
    job, signed = make(tmp_path / "2", {"b": STORY}, 3, **old, gone=gone("b"))
    assert signed == 1
    assert names(tmp_path / "2", job) == DUPLICATES | {"b": "a"}
    other = SETTINGS.model_copy(update={"duplicates": Duplicates(seed=5, permutations=64)})
    job, signed = make(tmp_path / "3", {}, 2, **old, settings=other)
    assert signed == len(TEXTS)
    assert names(tmp_path / "3", job) == DUPLICATES
    looser = SETTINGS.model_copy(update={"duplicates": Duplicates(threshold=0.99)})
    job, signed = make(tmp_path / "4", {}, 2, **old, settings=looser)
    assert signed == 0
    assert names(tmp_path / "4", job) == {"i": "a", "f": "d"}
    off = SETTINGS.model_copy(update={"duplicates": Duplicates(near="none")})
    gather(tmp_path / "5", documents({}), 2, **old, settings=off)
    assert {row["duplicate_of"] for row in rows(tmp_path / "5", "documents", 2)} == {None}
    again = {"old": tmp_path / "5" / "version", "old_shards": 2}
    job, signed = make(tmp_path / "6", {}, 2, **again)
    assert (signed, names(tmp_path / "6", job)) == (len(TEXTS), DUPLICATES)


def gone(*uris: str) -> Hashes:
    return Hashes.of(file_digest(uri, None) for uri in uris)


def indexed(folder: Path, shards: int = 1) -> list[dict[str, Any]]:
    """The chunks and vectors of a version."""
    return [*rows(folder, "chunks", shards), *rows(folder, "vectors", shards)]


@pytest.mark.parametrize("shards", [1, 3])
def test_indexing_once_is_switched_on_and_off_without_new_work(tmp_path: Path, shards: int) -> None:
    make(tmp_path / "all", TEXTS)
    make(tmp_path / "once", TEXTS, settings=ONCE)
    left = read_table(tmp_path / "once/version/left_out/shard-00000.parquet").to_pylist()
    assert {row["uri"] for row in left} == set(DUPLICATES)
    chunks = rows(tmp_path / "once", "chunks")
    assert {row["uri"] for row in chunks} == set(TEXTS) - set(DUPLICATES)
    assert len(rows(tmp_path / "once", "vectors")) == sum(row["searchable"] for row in chunks)
    assert len(rows(tmp_path / "once", "documents")) == len(TEXTS)

    old = {"old": tmp_path / "once" / "version", "old_shards": 1}
    make(tmp_path / "on", {}, shards, **old)
    assert indexed(tmp_path / "on", shards) == indexed(tmp_path / "all")
    assert not (tmp_path / "on" / "version" / LEFT_OUT).exists()
    old = {"old": tmp_path / "on" / "version", "old_shards": shards}
    make(tmp_path / "off", {}, **old, settings=ONCE)
    assert indexed(tmp_path / "off") == indexed(tmp_path / "once")
    again = read_table(tmp_path / "off/version/left_out/shard-00000.parquet").to_pylist()
    assert again == left
    # And once more, from a version that left something out to one that does the same.
    make(tmp_path / "same", {}, old=tmp_path / "off" / "version", old_shards=1, settings=ONCE)
    assert indexed(tmp_path / "same") == indexed(tmp_path / "once")


@pytest.mark.parametrize("how", ["gone", "dropped", "changed"])
def test_without_the_first_the_next_is_indexed(tmp_path: Path, how: str) -> None:
    make(tmp_path / "1", TEXTS, settings=ONCE)
    old: dict[str, Any] = {"old": tmp_path / "1" / "version", "old_shards": 1}
    now = {"a": OTHER} if how == "changed" else {}
    if how == "dropped":
        [doc_id] = documents({"a": ""})["doc_id"].to_pylist()
        old["dropped"] = Hashes.of([digest(doc_id)])
    else:
        old["gone"] = gone("a")
    job, _ = make(tmp_path / "2", now, **old, settings=ONCE)
    expected = {"f": "d", "h": "g", "i": "c"} | ({"b": "a"} if now else {})
    assert names(tmp_path / "2", job) == expected
    chunks = rows(tmp_path / "2", "chunks")
    assert {row["uri"] for row in chunks} == (set(TEXTS) - {"a"} | set(now)) - set(expected)
    make(tmp_path / "fresh", {k: v for k, v in (TEXTS | now).items() if k != "a" or now},
         settings=ONCE)  # fmt: skip
    assert indexed(tmp_path / "2") == indexed(tmp_path / "fresh")


def test_other_chunks_are_left_out_as_well(tmp_path: Path) -> None:
    make(tmp_path / "1", TEXTS, settings=ONCE)
    old: dict[str, Any] = {"old": tmp_path / "1" / "version", "old_shards": 1, "fits": False}
    assert make(tmp_path / "2", TEXTS, **old, settings=ONCE)[1] == 0
    assert indexed(tmp_path / "2") == indexed(tmp_path / "1")
