import asyncio

import numpy as np
import pytest

from rag_cluster.errors import ModelError
from rag_cluster.models.fakes import FakeEncoder, FakeLLM, FakeScorer
from rag_cluster.models.ports import Message, Request


def ask(text, **more):
    return Request((Message("user", text),), **more)


def test_texts_that_share_words_are_near():
    vectors = FakeEncoder(128).encode(["the red cat sat", "a red cat sat", "loans of a bank"])
    assert vectors[0] @ vectors[1] > 0.6 > vectors[0] @ vectors[2]


def test_the_window_ends_what_is_read():
    vectors = FakeEncoder(32, max_tokens=4).encode(["one two", "one two three"])
    np.testing.assert_array_equal(vectors[0], vectors[1])


def test_the_scorer_is_the_share_of_query_words():
    scores = FakeScorer().score("red cat sat", ["The cat SAT.", "dog", "red cat sat on"])
    np.testing.assert_allclose(scores, [2 / 3, 0, 1])


def test_the_script_is_read_in_order_and_ends():
    llm = FakeLLM(["one", "two"])
    assert asyncio.run(llm.generate(ask("a"))).text == "one"
    assert asyncio.run(llm.generate(ask("b"))).text == "two"
    assert [r.messages[0].content for r in llm.requests] == ["a", "b"]
    with pytest.raises(ModelError, match="used up"):
        asyncio.run(llm.generate(ask("c")))


def test_a_rule_sees_the_request():
    llm = FakeLLM(lambda request: request.messages[-1].content.upper())
    assert asyncio.run(llm.generate(ask("shout"))).text == "SHOUT"
