"""k shards return what one shard returns: the same rows, and the same scores."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_cluster.config import Dense, Lexical
from rag_cluster.errors import CollectionError
from rag_cluster.index import dense, lexical
from rag_cluster.index.sharded import DenseShards
from rag_cluster.index.topk import merge_topk

DIM = 16
ROWS = 500
FACTORIES = [
    "Flat",
    "IVF8,Flat",
    "IVF8,SQ8",
    "IVF8,PQ4x4fs,Refine(SQ8)",
    "IVF8,PQ8x4",
    "OPQ4,IVF8,PQ4x4fs,Refine(SQ8)",
]


def corpus(seed: int, rows: int = ROWS) -> np.ndarray:
    """Clustered unit vectors, float32 [rows, DIM], some of them twice."""
    generator = np.random.default_rng(seed)
    centers = generator.normal(size=(20, DIM))
    vectors = centers[generator.integers(0, 20, rows)] + 0.4 * generator.normal(size=(rows, DIM))
    vectors[generator.integers(0, rows, rows // 10)] = vectors[0]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32)


def trained(factory: str, metric: str) -> object:
    return dense.train(corpus(99), factory, Dense(metric=metric), dim=DIM)


def opened(
    index: object, vectors: np.ndarray, homes: np.ndarray, config: Dense, **limits: int
) -> DenseShards:
    """The vectors in as many shards as `homes` names; a hit's row is the vector's."""
    rows = [np.flatnonzero(homes == shard) for shard in range(int(homes.max()) + 1)]
    shards = [dense.DenseShard(dense.build_shard(index, vectors[r]), config) for r in rows]
    return DenseShards(shards, config, rows, **limits)


@pytest.fixture(scope="module", params=[(f, m) for f in FACTORIES for m in ("auto", "l2")], ids=str)
def empty_index(request: pytest.FixtureRequest) -> tuple[object, str, str]:
    factory, metric = request.param
    return trained(factory, metric), factory, metric


cases = st.tuples(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 60), st.integers(1, 8))


@settings(max_examples=5, deadline=None)
@given(drawn=cases, filtered=st.booleans())
def test_dense_shards_return_what_one_returns(
    empty_index: tuple[object, str, str], drawn: tuple[int, int, int, int], filtered: bool
) -> None:
    index, factory, metric = empty_index
    seed, count, k, nprobe = drawn
    vectors = corpus(seed)
    generator = np.random.default_rng(seed)
    # Indexes that turn vectors first are asked shard by shard: the same only with full probing.
    apart = factory.startswith("OPQ")
    config = Dense(nprobe=8 if apart else nprobe, k_factor=ROWS if apart else 3, metric=metric)
    homes = generator.integers(0, count, ROWS)
    homes[-1] = count - 1
    mask = generator.random(ROWS) < 0.5 if filtered else None
    queries = np.concatenate([vectors[:2], corpus(seed + 1, 3)])
    one = opened(index, vectors, np.zeros(ROWS, int), config, exact_rows=0)
    many = opened(index, vectors, homes, config, exact_rows=0)
    wanted, found = one.search(queries, k, mask), many.search(queries, k, mask)
    np.testing.assert_allclose(found[0], wanted[0], rtol=0, atol=1e-5)
    for line in range(len(queries)):
        same_as(found, wanted, line)


def same_as(found: tuple, wanted: tuple, line: int) -> None:
    """The same rows in the same order, but for rows whose scores are within float tolerance."""
    scores, rows = wanted[0][line], wanted[1][line]
    differs = np.flatnonzero(found[1][line] != rows)
    for column in differs:
        near = np.abs(scores - scores[column]) <= 1e-5
        at_border = near[-1]
        assert near.sum() > 1 or at_border, (column, found[1][line], rows)


@settings(max_examples=40, deadline=None)
@given(
    texts=st.lists(
        st.lists(st.sampled_from("abcdefgh"), max_size=9).map(" ".join), min_size=1, max_size=40
    ),
    count=st.integers(1, 5),
    k=st.integers(1, 30),
    seed=st.integers(0, 1000),
)
def test_bm25_shards_return_exactly_what_one_returns(
    texts: list[str], count: int, k: int, seed: int
) -> None:
    config = Lexical(language="none")
    homes = np.sort(np.random.default_rng(seed).integers(0, count, len(texts)))
    bounds = np.searchsorted(homes, range(count + 1))
    parts = [texts[low:high] for low, high in itertools.pairwise(bounds)]
    statistics = lexical.merge([lexical.statistics(part, config) for part in parts])
    queries = ["a", "b c c", "h a f", "unknown"]
    hits = [lexical.build_shard(part, statistics, config).search(queries, k) for part in parts]
    scores, rows = merge_topk(hits, bounds[:-1].tolist(), k)
    whole = lexical.build_shard(texts, lexical.statistics(texts, config), config)
    wanted = whole.search(queries, k)
    np.testing.assert_array_equal(scores, wanted[0])
    np.testing.assert_array_equal(rows, wanted[1])


def test_a_small_filter_is_answered_exactly_and_k_are_always_found() -> None:
    vectors = corpus(3)
    index = trained("IVF8,PQ4x4fs,Refine(Flat)", "auto")
    homes = np.arange(ROWS) % 3
    mask = np.arange(ROWS) % 25 == 7
    shards = opened(index, vectors, homes, Dense(nprobe=1))
    rows = shards.search(vectors[7:8], 10, mask)[1]
    allowed = np.flatnonzero(mask)
    best = allowed[np.argsort(-(vectors[allowed] @ vectors[7]), kind="stable")][:10]
    assert set(rows[0].tolist()) == set(best.tolist())
    by_lists = opened(index, vectors, homes, Dense(nprobe=1), exact_rows=0)
    assert (by_lists.search(vectors[:2], 18, mask)[1] >= 0).all()
    everything = by_lists.search(vectors[:1], ROWS)[1]
    assert sorted(everything[0].tolist()) == list(range(ROWS))


def test_batches_answer_much_as_single_queries_and_files_as_memory(tmp_path: Path) -> None:
    vectors = corpus(5)
    config = Dense(nprobe=4)
    index = trained("IVF8,PQ4x4fs,Refine(SQ8)", "auto")
    paths: Sequence[Path] = [tmp_path / f"{shard}.faiss" for shard in range(4)]
    for path, part in zip(paths, np.split(vectors, 4), strict=True):
        dense.write(dense.build_shard(index, part), path)
    shards = DenseShards.open(paths, config)
    assert (shards.size, shards.probes, shards.k_factor) == (ROWS, 4, 10)
    together = shards.search(vectors[:70], 10)
    alone = [shards.search(vectors[line : line + 1], 10) for line in range(70)]
    # The last bits of the centroids' distances differ in a batch, and a code's rounding with them.
    alone_rows = np.concatenate([rows for _, rows in alone])
    same = [len(set(a) & set(b)) for a, b in zip(together[1], alone_rows, strict=True)]
    assert np.mean(same) >= 9.5
    memory = opened(index, vectors, np.repeat(range(4), ROWS // 4), config)
    np.testing.assert_array_equal(memory.search(vectors[:70], 10)[1], together[1])


def test_no_shards_empty_shards_and_wrong_questions() -> None:
    assert DenseShards([], Dense()).search(corpus(0)[:2], 3)[1].tolist() == [[-1] * 3] * 2
    index = trained("IVF8,Flat", "auto")
    nothing = np.empty((0, DIM), dtype=np.float32)
    empty = DenseShards([dense.DenseShard(dense.build_shard(index, nothing), Dense())], Dense())
    assert empty.search(corpus(0)[:1], 2)[1].tolist() == [[-1, -1]]
    shards = opened(index, corpus(0), np.zeros(ROWS, int), Dense())
    with pytest.raises(CollectionError, match="16 dimensions and the vectors 5"):
        shards.search(np.zeros((1, 5), np.float32), 1)
    with pytest.raises(ValueError, match="at least 500 rows"):
        shards.search(corpus(0)[:1], 1, np.ones(5, np.bool_))
    with pytest.raises(ValueError, match="named for"):
        DenseShards(
            [dense.DenseShard(dense.build_shard(index, nothing), Dense())], Dense(), [np.arange(3)]
        )
