import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from rag_cluster.config import Dense
from rag_cluster.errors import CollectionError, ConfigError, IngestError, ModelError
from rag_cluster.index import dense
from rag_cluster.index.factory import default_nprobe

DIM = 8


def unit_vectors(count: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def shard_of(vectors: np.ndarray, factory: str = "Flat", **keys: object) -> dense.DenseShard:
    config = Dense(**keys)
    trained = dense.train(vectors, factory, config, dim=vectors.shape[1])
    return dense.DenseShard(dense.build_shard(trained, vectors), config)


@pytest.mark.parametrize(
    ("count", "dim", "factory"),
    [
        (0, 384, "Flat"),
        (49_999, 384, "Flat"),
        (50_000, 384, "IVF1024,Flat"),
        (499_999, 384, "IVF2048,Flat"),
        (500_000, 384, "IVF1024,PQ48x4fs,Refine(SQ8)"),
        (1_000_000, 384, "IVF2048,PQ48x4fs,Refine(SQ8)"),
        (1_000_000, 100, "IVF2048,PQ10x4fs,Refine(SQ8)"),
        (1_000_000, 7, "IVF2048,PQ1x4fs,Refine(SQ8)"),
    ],
)
def test_the_factory_follows_the_size(count: int, dim: int, factory: str) -> None:
    assert dense.choose_factory(count, dim, Dense()) == factory


def test_a_given_factory_is_taken_and_an_empty_collection_is_flat() -> None:
    assert dense.choose_factory(10, 384, Dense(factory="IVF4,SQ8")) == "IVF4,SQ8"
    assert dense.choose_factory(0, 384, Dense(factory="IVF4,SQ8")) == "Flat"


def test_too_few_training_vectors_make_fewer_lists_and_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        factory = dense.choose_factory(1_000_000, 384, Dense(train_size=20_000))
    assert factory == "IVF512,PQ48x4fs,Refine(SQ8)"  # 512 * 39 = 19,968 training vectors
    assert "20000 training vectors fill 512 inverted lists, not 2048" in caplog.text


def test_training_rows_are_seeded_and_unique() -> None:
    config = Dense(train_size=300, seed=1)
    rows = dense.training_rows(1000, config)
    assert len(set(rows.tolist())) == 300
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, dense.training_rows(1000, config))
    assert dense.training_rows(300, config).tolist() == list(range(300))


def test_what_needs_training() -> None:
    assert [dense.needs_training(f) for f in ("Flat", "HNSW32", "HNSW32,Flat")] == [False] * 3
    assert dense.needs_training("IVF4,Flat")
    assert dense.needs_training("SQ8")


def test_scores_are_inner_products_or_negated_squared_distances() -> None:
    vectors = np.array([[1, 0], [0, 2], [3, 4]], dtype=np.float32)
    query = np.array([[1, 1]], dtype=np.float32)
    scores, rows = shard_of(vectors).search(query, 3)
    assert (rows.tolist(), scores.tolist()) == ([[2, 1, 0]], [[7.0, 2.0, 1.0]])
    scores, rows = shard_of(vectors, metric="l2").search(query, 3)
    assert (rows.tolist(), scores.tolist()) == ([[0, 1, 2]], [[-1.0, -2.0, -13.0]])


@pytest.mark.parametrize("k", [1, 7, 40, 99])
@pytest.mark.parametrize("factory", ["Flat", "IVF2,Flat"])
def test_ties_at_the_border_are_decided_by_row(factory: str, k: int) -> None:
    vectors = np.repeat(unit_vectors(2), [100, 3], axis=0)
    order = np.random.default_rng(0).permutation(103)
    shard = shard_of(np.ascontiguousarray(vectors[order]), factory, nprobe=2)
    wanted = np.flatnonzero(order < 100)[:k]
    for batch in (1, 25):
        rows = shard.search(np.repeat(vectors[:1], batch, axis=0), k)[1]
        assert (rows == wanted).all()


def test_a_batch_answers_as_single_queries_do() -> None:
    vectors = unit_vectors(500)
    shard = shard_of(vectors)
    together = shard.search(vectors[:50], 10)
    alone = [shard.search(vectors[i : i + 1], 10) for i in range(50)]
    np.testing.assert_array_equal(together[0], np.concatenate([scores for scores, _ in alone]))
    np.testing.assert_array_equal(together[1], np.concatenate([rows for _, rows in alone]))


def test_a_filter_visits_more_lists() -> None:
    # Two far clusters; the filter leaves only rows of the one that the query is not in.
    vectors = np.concatenate([unit_vectors(200) + 4, unit_vectors(200, seed=1) - 4])
    config = Dense(nprobe=1)
    trained = dense.train(vectors, "IVF4,Flat", config, dim=DIM)
    index = dense.build_shard(trained, vectors)
    mask = np.arange(400) >= 200
    exact = dense.DenseShard(index, config).search(vectors[:1], 200, mask)
    listed = dense.DenseShard(index, config, exact_rows=0).search(vectors[:1], 200, mask)
    assert (exact[1] >= 200).all()
    np.testing.assert_array_equal(exact[1], listed[1])
    np.testing.assert_array_equal(exact[0], listed[0])


def test_the_same_training_makes_the_same_bytes() -> None:
    vectors = unit_vectors(700)
    first, second = (
        dense.to_bytes(dense.train(vectors, "IVF8,PQ4x4fs,Refine(SQ8)", Dense(seed=3), dim=DIM))
        for _ in range(2)
    )
    assert first == second
    shard = dense.build_shard(dense.from_bytes(first), vectors)
    assert shard.ntotal == 700
    assert dense.from_bytes(first).ntotal == 0


def test_the_number_of_threads_changes_no_bytes() -> None:
    faiss = pytest.importorskip("faiss")
    vectors = unit_vectors(2000)
    before = faiss.omp_get_max_threads()
    made = []
    for threads in (1, 3):
        faiss.omp_set_num_threads(threads)
        trained = dense.train(vectors, "IVF16,PQ4x4fs,Refine(SQ8)", Dense(), dim=DIM)
        made.append(dense.to_bytes(dense.build_shard(trained, vectors)))
    faiss.omp_set_num_threads(before)
    assert made[0] == made[1]


def test_threads_may_search_one_mapped_shard(tmp_path: Path) -> None:
    vectors = unit_vectors(600)
    trained = dense.train(vectors, "IVF8,Flat", Dense(), dim=DIM)
    dense.write(dense.build_shard(trained, vectors), tmp_path / "shard.faiss")
    shard = dense.DenseShard.open(tmp_path / "shard.faiss", Dense())
    assert (shard.size, shard.dim) == (600, DIM)
    mask = np.arange(600) % 3 == 0
    wanted = shard_of(vectors).search(vectors[:1], 5, mask)[1]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: shard.search(vectors[:1], 5, mask)[1], range(20)))
    assert all((rows == wanted).all() for rows in answers)


def test_default_nprobe_grows_with_the_lists() -> None:
    assert [default_nprobe(lists) for lists in (8, 1024, 16384)] == [8, 16, 64]


def test_other_dimensions_are_refused() -> None:
    shard = shard_of(unit_vectors(10))
    with pytest.raises(CollectionError, match="8 dimensions and the vectors 5"):
        shard.search(np.zeros((1, 5), dtype=np.float32), 1)
    with pytest.raises(ValueError, match=r"\[n, dim\]"):
        shard.search(np.zeros(8, dtype=np.float32), 1)
    with pytest.raises(ValueError, match="not 9"):
        dense.train(unit_vectors(3), "Flat", Dense(), dim=9)


def test_nan_is_refused() -> None:
    with pytest.raises(ModelError, match="NaN"):
        shard_of(unit_vectors(3)).search(np.full((1, DIM), np.nan, dtype=np.float32), 1)


@pytest.mark.parametrize("factory", ["Flatt", "IVF64,Flat", "PQ3x4"])
def test_a_factory_that_cannot_be_made_or_trained(factory: str) -> None:
    with pytest.raises(ConfigError, match=f"index.dense.factory '{factory}'"):
        dense.train(unit_vectors(10), factory, Dense(), dim=DIM)


def test_a_factory_with_ids_of_its_own() -> None:
    with pytest.raises(ConfigError, match="choose another"):
        shard_of(unit_vectors(10), "IDMap,Flat")


def test_absent_damaged_and_unwritable_files(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="absent"):
        dense.read(tmp_path / "none.faiss")
    (tmp_path / "bad.faiss").write_bytes(b"nonsense of some length")
    with pytest.raises(CollectionError, match="cannot be read"):
        dense.read(tmp_path / "bad.faiss")
    trained = dense.train(unit_vectors(1), "Flat", Dense(), dim=DIM)
    with pytest.raises(IngestError, match="cannot write"):
        dense.write(trained, tmp_path / "no" / "folder.faiss")


def test_without_faiss_the_extras_are_named(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['faiss'] = None\n"
        "from rag_cluster.errors import MissingExtraError\n"
        "from rag_cluster.index import dense\n"
        "try: dense.from_bytes(b'')\n"
        "except MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "rag-cluster[cpu]" in done.stdout, done.stderr
    assert "rag-cluster[gpu]" in done.stdout
