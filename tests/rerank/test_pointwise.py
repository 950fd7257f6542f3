import asyncio
import math

import numpy as np
import pytest

from rag_cluster.config import Config
from rag_cluster.errors import ModelError
from rag_cluster.models.fakes import FakeLLM
from rag_cluster.models.prompting import Prompting
from rag_cluster.rerank.pointwise import YesOrNo


class Likely:
    """Gives the same two logarithms each time."""

    name = "likely"

    def __init__(self, *likelihoods):
        self.likelihoods_given = list(likelihoods)

    async def likelihoods(self, request, choices):
        assert choices == ("yes", "no")
        return self.likelihoods_given


def score(llm, texts, **keys):
    prompting = Prompting(Config.model_validate({"embed": {"model": "fake:16"}}))
    return asyncio.run(YesOrNo(llm, prompting, {}, **keys).score("q", texts))


def test_the_score_is_the_share_of_yes():
    # .3 of .3 and .1
    found = score(Likely(math.log(0.3), math.log(0.1)), ["a"])
    np.testing.assert_allclose(found, [0.75], rtol=1e-6)


@pytest.mark.parametrize(
    ("yes", "no", "expected"),
    [(-0.1, -math.inf, 1.0), (-math.inf, -0.1, 0.0), (-1e4, -0.1, 0.0), (-900.0, -900.0, 0.5)],
)
def test_what_is_not_listed_has_no_share(yes, no, expected):
    np.testing.assert_allclose(score(Likely(yes, no), ["a"]), [expected], atol=1e-9)


def test_neither_word_is_an_error():
    with pytest.raises(ModelError, match="neither is among the likeliest"):
        score(Likely(-math.inf, -math.inf), ["a"])


def test_each_passage_is_asked_about_and_cut():
    def rule(request):
        text = request.messages[-1].content
        return {"one": "0.2", "two": "yes", "three": "no"}[text.split("Passage: ")[1].split()[0]]

    llm = FakeLLM(rule)
    found = score(llm, ["one " * 40, "two", "three"], passage_tokens=10)
    np.testing.assert_allclose(found, [0.2, 0.9, 0.1], rtol=1e-6)
    assert llm.requests[0].messages[-1].content.count("one ") == 10
    assert "Query: q" in llm.requests[0].messages[-1].content


def test_passages_are_judged_at_the_same_time():
    llm = FakeLLM(lambda _: "yes", delay_s=0.3)
    loop = asyncio.new_event_loop()
    start = loop.time()
    score(llm, ["a"] * 10)
    assert loop.time() - start < 10 * 0.3
    loop.close()


def test_no_passage_has_no_score():
    assert score(FakeLLM(), []).shape == (0,)
