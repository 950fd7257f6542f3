import math
from pathlib import Path

import numpy as np
import pytest
from tiny_models import WORDS, save_cross_encoder, save_encoder, save_splade

from rag_cluster.config import Sparse
from rag_cluster.errors import ModelError
from rag_cluster.models.sparse import FakeSparseEncoder, heaviest, load_sparse_encoder

TEXTS = ["the cat sat on the mat", "a dog", "", "river bank money loan"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_splade(tmp_path_factory.mktemp("splade"))


def encoder(folder: str, **settings):
    return load_sparse_encoder(Sparse(model=folder, device="cpu", dtype="float32", **settings))


def dense(vector, terms: int) -> np.ndarray:
    line = np.zeros(terms, np.float32)
    line[vector.terms] = vector.weights
    return line


def test_vectors_are_what_the_model_gives(folder: str) -> None:
    from sentence_transformers import SparseEncoder

    model = encoder(folder)
    assert model.terms == len(WORDS) + 1
    assert model.max_tokens == 64
    assert len(model.revision) == 24
    own = SparseEncoder(folder, device="cpu").encode_document(TEXTS).to_dense().numpy()
    found = model.encode(TEXTS)
    np.testing.assert_allclose([dense(v, model.terms) for v in found], own, rtol=0, atol=1e-5)


def test_a_window_beyond_the_models_positions_is_refused(folder: str) -> None:
    with pytest.raises(ModelError, match=r"max_tokens is 65, but .* reads 64 at most"):
        encoder(folder, max_tokens=65)


@pytest.mark.parametrize("save", [save_encoder, save_cross_encoder])
def test_a_model_that_gives_no_sparse_vectors_is_refused(save, tmp_path: Path) -> None:
    """sentence-transformers would load either, with a layer of random numbers behind it."""
    with pytest.raises(ModelError, match=r"does not give sparse vectors: it is neither a Sparse"):
        encoder(save(tmp_path))


def test_a_model_as_sentence_transformers_saves_it(folder: str, tmp_path: Path) -> None:
    from sentence_transformers import SparseEncoder

    SparseEncoder(folder, device="cpu").save_pretrained(str(tmp_path))
    for kind in ("query", "passage"):
        saved, own = encoder(str(tmp_path)).encode(TEXTS, kind), encoder(folder).encode(TEXTS, kind)
        for one, other in zip(saved, own, strict=True):
            np.testing.assert_array_equal(one.terms, other.terms)
            np.testing.assert_allclose(one.weights, other.weights, rtol=0, atol=1e-5)


def test_queries_without_a_network(folder: str, tmp_path: Path) -> None:
    """A model whose queries only look the weights of their tokens up."""
    from tiny_models import save_static_queries

    model = encoder(save_static_queries(folder, tmp_path))
    (query,) = model.encode(["the cat the"], "query")
    assert query.terms.tolist() == sorted(WORDS.index(word) for word in ("the", "cat"))
    assert query.weights.tolist() == [float(term) for term in query.terms]
    (passage,), (whole,) = model.encode(TEXTS[:1]), encoder(folder).encode(TEXTS[:1])
    np.testing.assert_array_equal(passage.terms, whole.terms)


def test_the_fake_weighs_words() -> None:
    fake = FakeSparseEncoder(1 << 20)
    once, twice, other, none = fake.encode(["red fox", "Fox, red fox!", "dog", "..."])
    assert once.terms.tolist() == twice.terms.tolist()
    assert once.weights == pytest.approx([math.log(2)] * 2)
    assert sorted(twice.weights) == pytest.approx([math.log(2), math.log(3)])
    assert not set(once.terms) & set(other.terms)
    assert len(none.terms) == 0
    (kept,) = FakeSparseEncoder(1 << 20, most=1).encode(["fox red fox"])
    assert kept.weights == pytest.approx([math.log(3)])


def test_ties_between_weights_go_to_the_lower_term() -> None:
    vector = heaviest(np.array([0, 2, 1, 2, 3, 0], np.float32), 2)
    assert (vector.terms.tolist(), vector.weights.tolist()) == ([1, 4], [2, 3])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, "sparse.model is not set"),
        ("fake:many", "write fake:TERMS"),
        ("fake:0", "write fake:TERMS"),
        ("/nowhere/model", "does not exist"),
    ],
)
def test_a_model_that_is_none(model: str | None, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_sparse_encoder(Sparse(model=model))


def test_weights_below_zero_are_refused(folder: str, tmp_path: Path) -> None:
    class Negative:
        max_seq_length = 64

        def encode_document(self, texts, **_):
            import torch

            return torch.tensor([[0.5, -0.5]] * len(texts))

    model = encoder(folder)
    model._model = Negative()
    with pytest.raises(ModelError, match="negative or no number: it is no model of the SPLADE"):
        model.encode(["a"])
