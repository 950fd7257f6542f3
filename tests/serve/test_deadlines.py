"""Deadlines stage by stage: what can be left out is left out, and what cannot ends the request."""

import asyncio
import threading
import time
from dataclasses import replace

import pytest
from api_service import events_of, running
from chat_server import Reply, answer, serve

from rag_cluster.answer.generate import Draft

SEARCH = {"query": "How fast does the acme rotor turn?"}
ASK = {"question": "How fast does the acme rotor turn?"}


class Held:
    """Held up for `seconds`, once that is set."""

    def __init__(self):
        self.seconds = 0.0

    def wait(self):
        time.sleep(self.seconds)


class SlowEncoder:
    """An encoder that is held up."""

    def __init__(self, inner, held):
        self._inner, self._held = inner, held
        self.dim, self.revision, self.max_tokens = inner.dim, inner.revision, inner.max_tokens

    def encode(self, texts, kind="passage"):
        self._held.wait()
        return self._inner.encode(texts, kind)

    def encode_tokens(self, texts, kind="passage"):
        return self._inner.encode_tokens(texts, kind)


class SlowScorer:
    """A cross-encoder that is held up."""

    def __init__(self, held):
        self._held = held

    def score(self, query, texts):
        self._held.wait()
        return [0.5] * len(texts)


class SlowWrites:
    """A generator that is held up, in a stream after its first word."""

    def __init__(self, held):
        self._held = held

    async def generate(self, question, sources, options):
        await asyncio.sleep(self._held.seconds)
        return Draft("It turns. [1]")

    async def stream(self, question, sources, options):
        yield "It "
        await asyncio.sleep(self._held.seconds)
        yield "turns. [1]"


@pytest.fixture(scope="module")
def parts():
    return {name: Held() for name in ("encoder", "reranker", "generator")}


@pytest.fixture(scope="module")
def slow(tenants, parts):
    def change(backend):
        encoder = backend.encoder
        encoder._encoder = SlowEncoder(encoder._encoder, parts["encoder"])
        backend.scores._scorers["cross_encoder", "fake:overlap"] = SlowScorer(parts["reranker"])
        return replace(backend, writes=SlowWrites(parts["generator"]))

    settings = ("rerank.kind=cross_encoder", "rerank.model=fake:overlap")
    with running(tenants, *settings, change=change) as found, found.client() as client:
        yield client


@pytest.fixture
def hold(parts, slow):
    def hold(name, seconds):
        parts[name].seconds = seconds

    yield hold
    for part in parts.values():
        part.seconds = 0.0
    # A model's thread ends what it is at, whoever waits for it.
    body = {"question": "rotor", "deadline_ms": 30_000}
    assert slow.post("/v1/ask", json=body).status_code == 200


def timed_post(client, path, body):
    start = time.monotonic()
    reply = client.post(path, json=body)
    return reply, time.monotonic() - start


def test_nothing_is_held_up(slow):
    reply = slow.post("/v1/ask", json=ASK | {"deadline_ms": 15_000})
    assert reply.status_code == 200
    assert reply.json()["notes"] == []


def test_an_encoder_that_takes_too_long(slow, hold):
    hold("encoder", 3)
    reply, took = timed_post(slow, "/v1/search", SEARCH | {"deadline_ms": 500})
    assert reply.status_code == 504
    assert reply.json()["error"]["message"] == "the request's deadline passed in the stage 'search'"
    assert took < 2.5
    reply, took = timed_post(slow, "/v1/embeddings", {"input": "a", "deadline_ms": 300})
    assert reply.status_code == 504
    assert "'encode'" in reply.json()["error"]["message"]


def test_a_reranker_that_takes_too_long_is_left_out(slow, hold):
    hold("reranker", 3)
    reply, took = timed_post(slow, "/v1/search", SEARCH | {"deadline_ms": 1500})
    assert reply.status_code == 200
    found = reply.json()
    assert "4000" in found["hits"][0]["text"]
    (note,) = found["notes"]
    assert note.startswith("the time for reranking was over while cross_encoder was at work (0 of")
    assert took < 2.5


def test_an_answer_is_still_written_where_reranking_was_left_out(slow, hold):
    hold("reranker", 3)
    reply, took = timed_post(slow, "/v1/ask", ASK | {"deadline_ms": 2000})
    assert reply.status_code == 200
    assert reply.json()["answer"].startswith("It turns.")
    assert "the time for reranking was over" in reply.json()["notes"][0]
    assert took < 3


def test_reranking_alone_has_no_order_so_far(slow, hold):
    hold("reranker", 2)
    reply, _ = timed_post(
        slow, "/v1/rerank", {"query": "a", "documents": ["b"], "deadline_ms": 300}
    )
    assert reply.status_code == 504
    assert "'rerank'" in reply.json()["error"]["message"]


def test_a_generator_that_takes_too_long(slow, hold):
    hold("generator", 5)
    reply, took = timed_post(slow, "/v1/ask", ASK | {"deadline_ms": 1500})
    assert reply.status_code == 504
    assert "'generate'" in reply.json()["error"]["message"]
    assert took < 4
    body = ASK | {"deadline_ms": 1500, "stream": True}
    with slow.stream("POST", "/v1/ask", json=body) as stream:
        told = list(events_of(stream.iter_lines()))
    assert [name for name, _ in told] == ["hits", "token", "error"]


@pytest.fixture
def waiting(tenants):
    """A service whose language model answers when it is told to, and a list of its calls."""
    go_on, calls = threading.Event(), []

    def decide(call):
        calls.append(call)
        said = answer('{"question": "x", "queries": ["rotor"]}', call)
        return Reply(said.status, said.body, said.headers, go_on)

    with serve(decide) as url:
        settings = ("llm.engine=openai", "llm.model=m", f"llm.base_url={url}",
                    "service.limits.transforms=[none, step_back]")  # fmt: skip
        with running(tenants, *settings) as found, found.client() as client:
            yield client, calls
            go_on.set()


def test_a_transform_that_takes_too_long_is_left_out(waiting):
    client, calls = waiting
    body = SEARCH | {"transform": "step_back", "deadline_ms": 2000}
    reply, took = timed_post(client, "/v1/search", body)
    assert reply.status_code == 200
    assert "4000" in reply.json()["hits"][0]["text"]
    assert "of the request's time" in reply.json()["notes"][0]
    assert took < 2
    assert len(calls) == 1


def test_a_conversation_is_understood_by_a_rule_where_the_model_takes_too_long(waiting):
    client, calls = waiting
    messages = [
        {"role": "user", "content": "How fast does the acme rotor turn?"},
        {"role": "assistant", "content": "At 4000 rounds per minute."},
        {"role": "user", "content": "And how is it cleaned?"},
    ]
    body = {"messages": messages, "deadline_ms": 3000}
    reply, took = timed_post(client, "/v1/chat/completions", body)
    assert reply.status_code == 200
    found = reply.json()
    assert found["question"] == "How fast does the acme rotor turn? And how is it cleaned?"
    assert found["notes"][0].startswith("the language model did not make the question standalone")
    assert found["timings_ms"]["standalone"] > 1000
    assert took < 3
    assert len(calls) == 1
