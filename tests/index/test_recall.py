import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rag_cluster.config import Dense
from rag_cluster.index import dense, measure, recall
from rag_cluster.index.factory import with_measured
from rag_cluster.index.recall import TIES, K
from rag_cluster.index.sharded import DenseShards

DIM = 16
COUNTS = [700, 0, 1300]


def unit_vectors(count: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def written(folder: Path, factory: str, config: Dense) -> np.ndarray:
    """A version's vectors and dense index in three shards, one of them empty."""
    vectors = unit_vectors(sum(COUNTS))
    trained = dense.train(vectors, factory, config, dim=DIM)
    (folder / "vectors").mkdir()
    (folder / "dense").mkdir()
    for shard, part in enumerate(np.split(vectors, np.cumsum(COUNTS)[:-1])):
        column = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), DIM)
        path = folder / "vectors" / f"shard-{shard:05d}.parquet"
        pq.write_table(pa.table({"vector": column}), path)
        dense.write(dense.build_shard(trained, part), folder / "dense" / f"shard-{shard:05d}.faiss")
    return vectors


def measured(folder: Path, factory: str, config: Dense) -> dict:
    def exact(paths: list[Path], queries: np.ndarray) -> list:
        return [measure.exact_shard(path, queries, config) for path in paths]

    return measure.measure_index(folder, COUNTS, factory, config, exact)


def test_queries_are_drawn_with_the_seed() -> None:
    rows = recall.query_rows(1000, Dense(seed=2, recall_queries=50))
    assert len(set(rows.tolist())) == 50
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, recall.query_rows(1000, Dense(seed=2, recall_queries=50)))
    assert recall.query_rows(3, Dense()).tolist() == [0, 1, 2]


@pytest.mark.parametrize("metric", ["auto", "l2"])
def test_exact_hits_are_those_of_a_sort(metric: str) -> None:
    vectors = 3 * unit_vectors(300) * np.linspace(0.5, 1, 300, dtype=np.float32)[:, np.newaxis]
    queries = unit_vectors(4, seed=1)
    blocks = [vectors[:7], vectors[7:7], vectors[7:]]
    (scores, rows), seconds = recall.exact_hits(blocks, queries, Dense(metric=metric))
    full = queries @ vectors.T
    if metric == "l2":
        full = -((queries[:, np.newaxis] - vectors) ** 2).sum(axis=2)
    wanted = np.argsort(-full, axis=1)[:, : K + TIES + 1]
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_allclose(scores, np.take_along_axis(full, wanted, axis=1), atol=1e-4)
    assert seconds > 0


def test_the_own_row_is_no_answer() -> None:
    vectors = unit_vectors(100)
    parts = [recall.exact_hits([part], vectors[60:61], Dense()) for part in np.split(vectors, 2)]
    wanted = recall.truth(vectors[60:61], np.array([60]), parts, [50, 50])
    assert 60 not in wanted.hits[1]
    best = np.argsort(-(vectors @ vectors[60]))
    assert wanted.hits[1][0, :K].tolist() == best[1 : K + 1].tolist()
    # Of the ten best, the first is left out of the hits and another one stands in its place.
    found = np.concatenate([[60], best[2 : K + 1], [best[50]]])[np.newaxis]
    assert recall.recall_of(found, wanted) == pytest.approx(0.9)
    assert recall.recall_of(best[np.newaxis, : K + 1], wanted) == 1.0


def test_what_ties_with_the_tenth_is_as_good() -> None:
    scores = np.array([[0.9] * 9 + [0.5] * 4], dtype=np.float32)
    rows = np.arange(13)[np.newaxis]
    wanted = recall.Truth(np.zeros((1, DIM), np.float32), np.array([99]), (scores, rows), 0.0)
    tied = np.array([[0, 1, 2, 3, 4, 5, 6, 7, 8, 12]])
    assert recall.recall_of(tied, wanted) == 1.0
    assert recall.recall_of(np.array([[0, 9, 10, 11, 12]]), wanted) == pytest.approx(0.5)


def test_fewer_rows_than_ten_and_none() -> None:
    scores = np.array([[0.9, 0.8, -np.inf]], dtype=np.float32)
    rows = np.array([[4, 7, -1]])
    wanted = recall.Truth(np.zeros((1, DIM), np.float32), np.array([0]), (scores, rows), 0.0)
    assert recall.recall_of(np.array([[0, 4, -1]]), wanted) == 0.5
    alone = recall.Truth(
        np.zeros((1, DIM), np.float32), np.array([0]), (scores[:, 2:], rows[:, 2:]), 0.0
    )
    assert recall.recall_of(np.array([[0, -1]]), alone) == 1.0


def test_more_lists_are_visited_until_recall_is_reached(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = Dense(min_recall=0.97, recall_queries=60)
    written(tmp_path, "IVF64,Flat", config)
    with caplog.at_level(logging.WARNING):
        section = measured(tmp_path, "IVF64,Flat", config)
    figures = section["recall"]
    assert (section["factory"], section["k_factor"]) == ("IVF64,Flat", None)
    assert section["nprobe"] in (32, 64)
    assert figures["reached"]
    assert figures["recall@10"] >= 0.97
    assert [trial["nprobe"] for trial in figures["tried"]][:2] == [16, 32]
    assert figures["queries"] == 60
    assert min(figures["ms_per_query"], figures["exact_ms_per_query"]) > 0
    assert "raised for index.dense.min_recall" in caplog.text
    again = with_measured(Dense(), section)
    assert (again.nprobe, again.k_factor) == (section["nprobe"], None)


def test_refinement_is_raised_where_lists_are_not_the_limit(tmp_path: Path) -> None:
    factory = "IVF8,PQ4x4fs,Refine(Flat)"
    config = Dense(min_recall=0.99, recall_queries=40)
    written(tmp_path, factory, config)
    section = measured(tmp_path, factory, config)
    assert section["nprobe"] == 8  # all lists: no more to raise
    assert section["k_factor"] > 10
    assert section["recall"]["reached"]


def test_what_cannot_be_reached_is_said_and_built_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = Dense(min_recall=0.9, recall_queries=30)
    written(tmp_path, "IVF8,PQ4x4fs", config)
    with caplog.at_level(logging.WARNING):
        section = measured(tmp_path, "IVF8,PQ4x4fs", config)
    assert not section["recall"]["reached"]
    assert "below index.dense.min_recall 0.9" in section["recall"]["warning"]
    assert "Refine(Flat)" in caplog.text


def test_settings_of_the_configuration_stay(tmp_path: Path) -> None:
    config = Dense(nprobe=1, min_recall=0.99, recall_queries=20)
    written(tmp_path, "IVF64,Flat", config)
    section = measured(tmp_path, "IVF64,Flat", config)
    assert (section["nprobe"], len(section["recall"]["tried"])) == (1, 1)
    assert with_measured(Dense(nprobe=3), section).nprobe == 3
    assert with_measured(Dense(), {"factory": "IVF64,Flat"}).nprobe is None


def test_shards_without_lists_of_their_own_are_measured_too(tmp_path: Path) -> None:
    config = Dense(recall_queries=20)
    vectors = written(tmp_path, "OPQ4,IVF8,PQ4x4fs,Refine(Flat)", config)
    section = measured(tmp_path, "OPQ4,IVF8,PQ4x4fs,Refine(Flat)", config)
    assert section["nprobe"] == 8
    paths = sorted((tmp_path / "dense").iterdir())
    shards = DenseShards.open(paths, with_measured(config, section))
    assert shards.search(vectors[900:901], 1)[1].tolist() == [[900]]


def test_an_exact_index_needs_no_measuring(tmp_path: Path) -> None:
    section = measured(tmp_path, "Flat", Dense())
    assert section["recall"] == {"measured": False, "reason": "the index is exact"}
    section = measured(tmp_path, "IVF64,Flat", Dense(recall_queries=0))
    assert "recall_queries is 0" in section["recall"]["reason"]
