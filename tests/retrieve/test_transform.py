import asyncio
import json

import numpy as np
import pytest

from rag_cluster.config import Config, Transform
from rag_cluster.errors import ServiceError
from rag_cluster.models.fakes import FakeLLM
from rag_cluster.models.prompting import Prompting
from rag_cluster.retrieve.transform import Found, Model, Transformed, Transformer, average

QUERY = "how hot does copper get"
FOUND = Found(["copper melts in the furnace", "the furnace is hot"], [2.0, 1.0])


def transform(kind, llm=None, *, query=QUERY, found=None, **keys):
    model = None
    if llm is not None:
        prompting = Prompting(Config.model_validate({"embed": {"model": "fake:16"}}))
        model = Model(llm, prompting, {})
    transformer = Transformer(Transform(kind=kind, **keys), str.split, model)
    return asyncio.run(transformer(query, found))


def test_hyde_writes_passages_that_are_searched_beside_the_query():
    llm = FakeLLM(["It melts at 1085 degrees.", " Copper is red. ", "It melts at 1085 degrees."])
    made = transform("hyde", llm, count=3, temperature=0.5)
    assert made.queries == (QUERY,)
    assert made.documents == ("It melts at 1085 degrees.", "Copper is red.")
    assert len(llm.requests) == 3
    assert all(request.temperature == 0.5 for request in llm.requests)
    assert QUERY in llm.requests[0].messages[-1].content


def test_hypothetical_passages_are_written_at_the_same_time():
    llm = FakeLLM(lambda _: "a passage", delay_s=0.3)
    loop = asyncio.new_event_loop()
    start = loop.time()
    transform("hyde", llm, count=8)
    assert loop.time() - start < 8 * 0.3
    loop.close()


def test_the_average_counts_the_query_as_one_passage():
    query = np.array([[1, 0]], np.float32)
    passages = np.array([[0, 1], [0, 1]], np.float32)
    np.testing.assert_allclose(average(query, passages, unit=False), [[1 / 3, 2 / 3]], rtol=1e-6)
    unit = average(query, passages, unit=True)
    np.testing.assert_allclose(unit, [[1 / 5**0.5, 2 / 5**0.5]], rtol=1e-6)
    assert unit.dtype == np.float32


def test_multi_query_keeps_the_query_and_new_ways_to_ask_it():
    ways = ["when does  copper melt", QUERY, "", "when does copper melt", "copper melting point"]
    llm = FakeLLM([json.dumps({"queries": ways})])
    made = transform("multi_query", llm, count=4)
    assert made.queries == (QUERY, "when does copper melt", "copper melting point")
    assert "the language of the question" in llm.requests[0].messages[-1].content


def test_no_more_ways_than_asked_for():
    llm = FakeLLM([json.dumps({"queries": ["a", "b", "c"]})])
    assert transform("multi_query", llm, count=2).queries == (QUERY, "a", "b")


def test_step_back_adds_one_question():
    llm = FakeLLM([json.dumps({"queries": ["at what temperatures do metals melt", "more"]})])
    made = transform("step_back", llm)
    assert made.queries == (QUERY, "at what temperatures do metals melt")


def test_feedback_needs_no_model_and_weighs_words_of_the_first_results():
    made = transform("feedback", found=FOUND, terms=2, original_weight=0.5)
    # P(furnace|R) = 2/3/5 + 1/3/4, and the same for "the"
    assert made.words == pytest.approx({QUERY: 0.1, "furnace": 0.25, "the": 0.25})
    assert made.note is None


def test_a_model_picks_words_of_the_first_results():
    llm = FakeLLM([json.dumps({"terms": ["melting point", "furnace"]})])
    made = transform("feedback_llm", llm, found=FOUND, original_weight=0.6)
    assert made.words == pytest.approx({QUERY: 0.12, "melting point": 0.2, "furnace": 0.2})
    prompt = llm.requests[0].messages[-1].content
    assert all(text in prompt for text in FOUND.texts)


def test_passages_for_feedback_are_cut():
    llm = FakeLLM([json.dumps({"terms": ["furnace"]})])
    transform("feedback_llm", llm, found=Found(["word " * 500], [1.0]))
    assert llm.requests[0].messages[-1].content.count("word ") == 200


@pytest.mark.parametrize("kind", ["feedback", "feedback_llm"])
@pytest.mark.parametrize("found", [None, Found([], [])])
def test_feedback_without_results_is_the_query(kind, found):
    made = transform(kind, FakeLLM(), found=found)
    assert made == Transformed(kind, (QUERY,))


class Unreachable:
    name = "unreachable"

    async def generate(self, request):
        raise ServiceError("'m' at http://x failed after 3 tries: HTTP 503")


@pytest.mark.parametrize("kind", ["hyde", "multi_query", "step_back", "feedback_llm"])
def test_a_failure_leaves_the_query_and_says_so(kind):
    made = transform(kind, Unreachable(), found=FOUND)
    assert (made.queries, made.documents, made.words) == ((QUERY,), (), {})
    assert made.note.startswith(f"transform {kind} failed, and the query was searched as it is")
    assert "HTTP 503" in made.note


@pytest.mark.parametrize("kind", ["multi_query", "step_back", "feedback_llm"])
def test_an_answer_that_is_no_list_is_asked_for_again_and_then_falls_back(kind):
    llm = FakeLLM(lambda _: "I would rather not.")
    made = transform(kind, llm, found=FOUND)
    assert len(llm.requests) == 2
    assert made.queries == (QUERY,)
    assert "did not answer as it was asked to" in made.note


@pytest.mark.parametrize("kind", ["hyde", "multi_query"])
def test_a_model_that_takes_too_long_is_not_waited_for(kind):
    made = transform(kind, FakeLLM(lambda _: "late", delay_s=30), timeout_s=0.05)
    assert made.queries == (QUERY,)
    assert "transform.timeout_s (0.05)" in made.note


def test_json_says_only_what_there_is():
    made = Transformed("feedback", ("q",), words={"q": 0.123456789})
    assert made.to_json() == {"kind": "feedback", "queries": ["q"], "words": {"q": 0.123457}}
    made = Transformed("hyde", ("q",), documents=("d",))
    assert made.to_json() == {"kind": "hyde", "queries": ["q"], "documents": ["d"]}
