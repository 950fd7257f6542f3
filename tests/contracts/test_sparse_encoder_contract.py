"""What every sparse encoder must do: the fake, SPLADE, and one whose queries are looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tiny_models import save_splade, save_static_queries

from rag_cluster.config import Sparse
from rag_cluster.models.sparse import SparseEncoder, load_sparse_encoder

TEXTS = ["the cat sat on the mat", "", "a dog", "money " * 300, "the bank of the river", "a dog"]
KINDS = ["fake", "splade", "static queries"]

Load = Callable[..., SparseEncoder]


@pytest.fixture(scope="module", params=KINDS)
def load(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Load:
    model = "fake:1000"
    if request.param != "fake":
        model = save_splade(tmp_path_factory.mktemp("splade"))
    if request.param == "static queries":
        model = save_static_queries(model, tmp_path_factory.mktemp("static"))

    def load(**settings: Any) -> SparseEncoder:
        return load_sparse_encoder(Sparse(model=model, device="cpu", dtype="float32", **settings))

    return load


@pytest.mark.parametrize("kind", ["query", "passage"])
def test_terms_rise_and_weights_are_positive(load: Load, kind: Any) -> None:
    encoder = load()
    vectors = encoder.encode(TEXTS, kind)
    assert len(vectors) == len(TEXTS)
    assert encoder.encode([], kind) == []
    for terms, weights in vectors:
        assert (terms.dtype, weights.dtype) == (np.int32, np.float32)
        assert len(terms) == len(weights)
        assert (np.diff(terms) > 0).all()
        assert (weights > 0).all()
        assert not len(terms) or 0 <= terms[0] <= terms[-1] < encoder.terms


@pytest.mark.parametrize("kind", ["query", "passage"])
def test_a_text_has_one_vector_whatever_stands_beside_it(load: Load, kind: Any) -> None:
    encoder = load()
    for text, vector in zip(TEXTS, encoder.encode(TEXTS, kind), strict=True):
        (alone,) = encoder.encode([text], kind)
        np.testing.assert_array_equal(alone.terms, vector.terms)
        np.testing.assert_allclose(alone.weights, vector.weights, rtol=0, atol=1e-5)


def test_the_window_cuts_and_says_what_it_cut(load: Load) -> None:
    encoder = load(max_tokens=8)
    assert encoder.max_tokens == 8
    # Two of the eight are special.
    assert encoder.beyond(TEXTS) == [0, 0, 0, 294, 0, 0]
    longer, cut = encoder.encode(["the cat sat on the mat a dog", "the cat sat on the mat"])
    np.testing.assert_array_equal(longer.terms, cut.terms)


def test_a_passage_keeps_its_heaviest_terms_and_a_query_all(load: Load) -> None:
    few, whole = load(max_terms=2), load()
    for kept, full in zip(few.encode(TEXTS), whole.encode(TEXTS), strict=True):
        assert len(kept.terms) == min(2, len(full.terms))
        assert set(kept.terms) <= set(full.terms)
        heaviest = np.sort(full.weights)[-2:]
        np.testing.assert_allclose(np.sort(kept.weights), heaviest, rtol=0, atol=1e-5)
    for kept, full in zip(few.encode(TEXTS, "query"), whole.encode(TEXTS, "query"), strict=True):
        np.testing.assert_array_equal(kept.terms, full.terms)


def test_the_same_weights_have_the_same_revision(load: Load) -> None:
    assert load().revision == load(max_terms=2).revision
