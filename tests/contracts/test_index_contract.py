"""What every shard must do, whatever its kind: order, completeness under filters, shards, disk."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import TEXT, save_splade

from rag_cluster.config import Dense, Lexical, Sparse
from rag_cluster.index import dense, lexical, sparse
from rag_cluster.index.topk import Hits, Mask, merge_topk
from rag_cluster.models.sparse import SparseVector, load_sparse_encoder
from rag_cluster.work import SPARSE

ROWS = 700  # enough to train 8 lists and 16 centroids without a complaint of FAISS
DIM = 16
WORDS = [f"w{number}" for number in range(40)]

Search = Callable[[int, Mask | None], Hits]


@dataclass
class Case:
    """A corpus in one shard, read from disk, and a way to build part of it as another shard."""

    search: Search
    build: Callable[[slice], Search]
    exact: bool  # the same scores, to the last bit, however the corpus is cut into shards
    matching: np.ndarray  # bool [queries, rows]: what can be a hit at all


def vectors_with_duplicates() -> np.ndarray:
    generator = np.random.default_rng(7)
    vectors = generator.normal(size=(ROWS, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[generator.integers(0, ROWS, 120)] = vectors[5]
    return vectors


def dense_case(factory: str, folder: Path, **limits: int) -> Case:
    vectors = vectors_with_duplicates()
    queries = np.concatenate([vectors[5:6], vectors[100:102]])
    config = Dense(nprobe=2)
    trained = dense.train(vectors, factory, config, dim=DIM)

    def build(part: slice) -> Search:
        path = folder / f"{part.start}-{part.stop}.faiss"
        dense.write(dense.build_shard(trained, vectors[part]), path)
        shard = dense.DenseShard(dense.read(path), config, **limits)
        return lambda k, mask: shard.search(queries, k, mask)

    matching = np.ones((len(queries), ROWS), dtype=np.bool_)
    return Case(build(slice(0, ROWS)), build, False, matching)


def lexical_case(folder: Path) -> Case:
    generator = np.random.default_rng(3)
    texts = [" ".join(generator.choice(WORDS, generator.integers(0, 9))) for _ in range(ROWS)]
    queries = ["w1", "w2 w3 w3", "w4 unknown", "unknown", "", "the"]
    config = Lexical()
    stats = lexical.statistics(texts, config)

    def build(part: slice) -> Search:
        path = folder / f"{part.start}-{part.stop}"
        lexical.build_shard(texts[part], stats, config).save(path)
        shard = lexical.LexicalShard.open(path, config)
        return lambda k, mask: shard.search(queries, k, mask)

    matching = np.array(
        [[bool(set(query.split()) & set(text.split())) for text in texts] for query in queries]
    )
    return Case(build(slice(0, ROWS)), build, True, matching)


def splade_case(folder: Path) -> Case:
    """A tiny SPLADE with random weights, of which each chunk keeps a few terms."""
    words = TEXT.split()[4:]
    generator = np.random.default_rng(3)
    texts = [" ".join(generator.choice(words, generator.integers(0, 9))) for _ in range(ROWS)]
    config = Sparse(model=save_splade(folder / "model"), dtype="float32", max_terms=4)
    encoder = load_sparse_encoder(config)
    vectors = encoder.encode(texts)
    queries = encoder.encode(["the cat", "red blue river", "bank"])
    # Terms of which a vocabulary knows nothing, and a query that says nothing.
    beyond = SparseVector(np.array([3, 10_000], np.int32), np.array([1, 2], np.float32))
    queries += [beyond, SparseVector(np.empty(0, np.int32), np.empty(0, np.float32))]

    def build(part: slice) -> Search:
        path = folder / f"{part.start}-{part.stop}"
        columns = zip(*vectors[part], strict=True) if vectors[part] else ((), ())
        terms, weights = (
            pa.chunked_array([pa.array(list(column), field.type)])
            for column, field in zip(columns, SPARSE, strict=True)
        )
        sparse.build_shard(terms, weights).save(path)
        shard = sparse.SparseShard.open(path)
        return lambda k, mask: shard.search(queries, k, mask)

    matching = np.array(
        [[bool(set(q.terms) & set(v.terms)) for v in vectors] for q in queries], dtype=np.bool_
    )
    return Case(build(slice(0, ROWS)), build, True, matching)


FACTORIES = {
    "flat": "Flat",
    "ivf": "IVF8,Flat",
    "ivf-pq": "IVF8,PQ4x4fs,Refine(SQ8)",
    "hnsw": "HNSW8",
    "pq": "PQ4x4",
}


KINDS = [*FACTORIES, "ivf-by-lists", "ivf-pq-by-lists", "bm25", "splade"]


@pytest.fixture(scope="module", params=KINDS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("shards")
    if request.param == "bm25":
        return lexical_case(folder)
    if request.param == "splade":
        return splade_case(folder)
    name = request.param.removesuffix("-by-lists")
    if name != request.param:  # filters are answered by the inverted lists, never by exact scores
        return dense_case(FACTORIES[name], folder, exact_rows=0)
    return dense_case(FACTORIES[name], folder)


masks = st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.003, 0.05, 0.5, 1.0])).map(
    lambda drawn: np.random.default_rng(drawn[0]).random(ROWS) < drawn[1]
)
counts = st.one_of(st.integers(1, 30), st.sampled_from([ROWS - 1, ROWS, ROWS + 50]))


@settings(max_examples=25, deadline=None)
@given(mask=st.none() | masks, k=counts)
def test_k_hits_whenever_they_exist(case: Case, mask: Mask | None, k: int) -> None:
    scores, rows = case.search(k, mask)
    assert scores.dtype == np.float32
    assert rows.dtype == np.int64
    allowed = case.matching if mask is None else case.matching & mask
    for line in range(len(rows)):
        found = rows[line][rows[line] >= 0]
        assert len(found) == min(k, allowed[line].sum())
        assert len(set(found.tolist())) == len(found)
        assert allowed[line][found].all()
        assert (rows[line][len(found) :] == -1).all()
        assert (scores[line][len(found) :] == -np.inf).all()


@settings(max_examples=25, deadline=None)
@given(mask=st.none() | masks, k=counts)
def test_best_first_and_ties_by_row(case: Case, mask: Mask | None, k: int) -> None:
    scores, rows = case.search(k, mask)
    for line in range(len(rows)):
        found = int((rows[line] >= 0).sum())
        pairs = list(zip(-scores[line][:found], rows[line][:found], strict=True))
        assert pairs == sorted(pairs)


@settings(max_examples=10, deadline=None)
@given(mask=st.none() | masks, k=counts)
def test_the_same_question_has_the_same_answer(case: Case, mask: Mask | None, k: int) -> None:
    first, second = case.search(k, mask), case.search(k, mask)
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def test_a_mask_may_go_on_for_rows_that_are_not_searchable(case: Case) -> None:
    mask = np.arange(ROWS + 20) % 2 == 0
    np.testing.assert_array_equal(case.search(5, mask)[1], case.search(5, mask[:ROWS])[1])


def test_a_mask_that_is_too_short_is_refused(case: Case) -> None:
    with pytest.raises(ValueError, match="at least 700 rows"):
        case.search(5, np.ones(10, dtype=np.bool_))


def test_fewer_than_one_hit_is_refused(case: Case) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        case.search(0, None)


def test_an_empty_shard_has_no_hits(case: Case) -> None:
    scores, rows = case.build(slice(0, 0))(3, None)
    assert rows.shape == scores.shape == (len(case.matching), 3)
    assert (rows == -1).all()


@pytest.mark.parametrize("cuts", [(350,), (1, 2, 699), (0, 200, 200, 500)], ids=str)
def test_shards_answer_as_one(case: Case, cuts: tuple[int, ...]) -> None:
    # All are asked for: approximate indexes visit every list then, and must agree as well.
    bounds = [0, *cuts, ROWS]
    parts = [case.build(slice(*pair)) for pair in pairwise(bounds)]
    merged = merge_topk([search(ROWS, None) for search in parts], bounds[:-1], ROWS)
    whole = case.search(ROWS, None)
    if case.exact:
        np.testing.assert_array_equal(merged[0], whole[0])
        np.testing.assert_array_equal(merged[1], whole[1])
    else:
        np.testing.assert_allclose(merged[0], whole[0], rtol=0, atol=1e-5)
