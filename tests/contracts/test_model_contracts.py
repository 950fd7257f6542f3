"""What every Encoder, Scorer and LLM must do, whatever is behind it."""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor

import chat_server
import numpy as np
import pytest
import tiny_models

from rag_cluster.config import Embed, LanguageModel
from rag_cluster.models.encoder import load_encoder
from rag_cluster.models.fakes import FakeEncoder, FakeLLM, FakeScorer
from rag_cluster.models.llm import load_llm
from rag_cluster.models.ports import Message, Request
from rag_cluster.models.scorer import LateInteractionScorer, load_scorer

TEXTS = ["the cat sat on the mat", "", "a dog", "money " * 300, "the bank of the river", "a dog"]


@pytest.fixture(scope="module", params=["fake", "sentence-transformers"])
def encoder(request, tmp_path_factory):
    if request.param == "fake":
        return load_encoder(Embed(model="fake:16"))
    model = tiny_models.save_encoder(tmp_path_factory.mktemp("encoder"))
    return load_encoder(Embed(model=model, device="cpu"))


def test_encoder_gives_a_unit_vector_for_each_text(encoder):
    vectors = encoder.encode(TEXTS)
    assert (vectors.shape, vectors.dtype) == ((len(TEXTS), encoder.dim), np.float32)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(vectors[2], vectors[5], atol=1e-6)


def test_encoder_vectors_follow_the_texts_order(encoder):
    backwards = encoder.encode(TEXTS[::-1])[::-1]
    np.testing.assert_allclose(encoder.encode(TEXTS), backwards, atol=1e-5)


def test_encoder_of_nothing_gives_nothing(encoder):
    assert encoder.encode([]).shape == (0, encoder.dim)
    assert encoder.encode_tokens([]) == []


def test_encoder_token_vectors_are_unit_vectors_within_the_window(encoder):
    found = encoder.encode_tokens(TEXTS, "query")
    assert len(found) == len(TEXTS)
    for states in found:
        assert 1 <= len(states) <= encoder.max_tokens
        assert (states.shape[1], states.dtype) == (encoder.dim, np.float32)
        np.testing.assert_allclose(np.linalg.norm(states, axis=1), 1, atol=1e-5)


def test_encoder_may_be_shared_between_threads(encoder):
    expected = encoder.encode(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        for vectors in pool.map(encoder.encode, [TEXTS] * 8):
            np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_encoder_names_its_weights(encoder):
    assert encoder.revision


@pytest.fixture(
    scope="module", params=["overlap", "cross_encoder", "late_interaction", "colbert", "monot5"]
)
def scorer(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scorer")
    match request.param:
        case "overlap":
            return FakeScorer()
        case "late_interaction":
            return LateInteractionScorer(FakeEncoder(16))
        case "cross_encoder" as kind:
            model = tiny_models.save_cross_encoder(folder)
        case "colbert" as kind:
            model = tiny_models.save_colbert(folder)
        case "monot5" as kind:
            model = tiny_models.save_t5(folder)
    return load_scorer(kind, model, batch_size=2)


def test_scorer_gives_a_finite_score_for_each_text(scorer):
    scores = scorer.score("what cat", TEXTS)
    assert (scores.shape, scores.dtype) == ((len(TEXTS),), np.float32)
    assert np.isfinite(scores).all()
    np.testing.assert_allclose(scores[2], scores[5], atol=1e-6)


def test_scorer_scores_follow_the_texts_order(scorer):
    backwards = scorer.score("what cat", TEXTS[::-1])[::-1]
    np.testing.assert_allclose(scorer.score("what cat", TEXTS), backwards, atol=1e-5)


def test_scorer_scores_a_text_alike_whatever_stands_beside_it(scorer):
    """What a deadline cuts off is then what fewer candidates would have given."""
    alone = [scorer.score("what cat", [text])[0] for text in TEXTS]
    np.testing.assert_allclose(scorer.score("what cat", TEXTS), alone, atol=1e-4)


def test_scorer_of_nothing_gives_nothing(scorer):
    assert scorer.score("what cat", []).shape == (0,)


def _say(call):
    if call.get("logprobs"):
        return chat_server.likely({"yes": -0.4, "No": -1.5}, call)
    return chat_server.answer("the cat sat", call)


@pytest.fixture(params=["fake", "echo", "openai", "transformers"])
def llm(request, tmp_path_factory):
    match request.param:
        case "fake":
            yield FakeLLM(lambda asked: "yes" if asked.max_tokens == 1 else "the cat sat on it")
        case "echo":
            yield load_llm(LanguageModel(engine="fake"))
        case "openai":
            with chat_server.serve(_say) as url:
                yield load_llm(LanguageModel(engine="openai", model="tiny", base_url=url))
        case _:
            folder = tmp_path_factory.mktemp("lm")
            model = tiny_models.save_language_model(folder, more=("yes", "no"))
            made = load_llm(LanguageModel(engine="transformers", model=model))
            yield made
            made.close()


def test_llm_answers_and_streams_the_same(llm):
    request = Request((Message("system", "the"), Message("user", "cat")), max_tokens=5)

    async def both():
        whole = await llm.generate(request)
        pieces = [piece async for piece in llm.stream(request)]
        if hasattr(llm, "aclose"):
            await llm.aclose()
        return whole, pieces

    whole, pieces = asyncio.run(both())
    assert whole.text.strip()
    assert "".join(pieces) == whole.text
    assert 0 < whole.completion_tokens <= 5
    assert llm.name


def test_llm_gives_the_likelihoods_of_choices(llm):
    request = Request((Message("user", "the cat"),), max_tokens=1)

    async def ask():
        found = await llm.likelihoods(request, ("yes", "no"))
        if hasattr(llm, "aclose"):
            await llm.aclose()
        return found

    likely = asyncio.run(ask())
    assert len(likely) == 2
    assert all(log <= 0 for log in likely)
    assert sum(math.exp(log) for log in likely) <= 1 + 1e-6
