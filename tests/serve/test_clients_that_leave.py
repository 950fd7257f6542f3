"""A client that goes away stops the work, that of the language model included."""

import threading

import httpx2 as httpx
import openai
import pytest
from api_service import events_of, running
from slow_llm import slow_llm

from serve.observe import Observer

LEFT_S = 3.0  # it takes a few milliseconds; a busy machine needs more
QUESTION = "How fast does the acme rotor turn?"
CHAT = {"messages": [{"role": "user", "content": QUESTION}]}


class Seen(Observer):
    """Keeps the records of queries."""

    def __init__(self):
        super().__init__()
        self.records = []
        self.came = threading.Event()

    def ended(self, record):
        self.records.append(record)
        self.came.set()


@pytest.fixture(scope="module")
def generating(tenants):
    """A service whose generator is the slow server."""
    with slow_llm() as llm:
        settings = ("generate.kind=openai", "generate.model=m", f"generate.base_url={llm.url}",
                    "llm.engine=openai", "llm.model=m", f"llm.base_url={llm.url}", "llm.retries=0",
                    "service.limits.transforms=[none, step_back]")  # fmt: skip
        with running(tenants, *settings) as found:
            yield found, llm


@pytest.fixture
def served(generating):
    """The service, the slow server and what became of queries, all anew."""
    found, llm = generating
    llm.asked.clear()
    llm.left.clear()
    seen = Seen()
    found.app.state.service.observer = seen
    return found, llm, seen


def check_stopped(llm, seen, status=499):
    assert llm.left.wait(LEFT_S)
    assert seen.came.wait(LEFT_S)
    assert [record.status for record in seen.records] == [status]


def test_a_stream_that_is_left(served):
    found, llm, seen = served
    body = {"question": QUESTION, "stream": True}
    with found.client() as client, client.stream("POST", "/v1/ask", json=body) as reply:
        for name, _ in events_of(reply.iter_lines()):
            if name == "token":
                break
        assert not llm.left.is_set()
    check_stopped(llm, seen)
    assert seen.records[0].extra["first_token_s"] > 0


def test_a_stream_of_the_official_client_that_is_left(served):
    found, llm, seen = served
    with openai.OpenAI(base_url=f"{found.url}/v1", api_key="none", max_retries=0) as client:
        stream = client.chat.completions.create(model="any", stream=True, **CHAT)
        for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        stream.close()
    check_stopped(llm, seen)


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/chat/completions"])
def test_a_reply_that_is_not_waited_for(served, path):
    found, llm, seen = served
    body = {"question": QUESTION} if path == "/v1/ask" else CHAT
    leave = threading.Event()

    def ask():
        with found.client() as client, pytest.raises(httpx.ReadTimeout):
            client.post(path, json=body, timeout=httpx.Timeout(20, read=1.0))
        leave.set()

    asking = threading.Thread(target=ask)
    asking.start()
    assert llm.asked.wait(20)
    assert not llm.left.is_set()
    assert leave.wait(20)
    check_stopped(llm, seen)
    asking.join()


@pytest.mark.parametrize("body", [{"transform": "step_back"}, {"stream": True}], ids=str)
def test_leaving_before_the_first_word(served, body):
    """While the transform is at work, and while a stream has told no more than the hits."""
    found, llm, seen = served
    llm.pace_s, pace = 1.0, llm.pace_s
    try:
        with found.client() as client, pytest.raises(httpx.ReadTimeout):
            client.post("/v1/ask", json={"question": QUESTION} | body,
                        timeout=httpx.Timeout(20, read=0.8))  # fmt: skip
        check_stopped(llm, seen)
    finally:
        llm.pace_s = pace


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/chat/completions"])
def test_a_deadline_stops_the_language_model_too(served, path):
    found, llm, seen = served
    body = {"question": QUESTION} if path == "/v1/ask" else CHAT
    with found.client() as client:
        reply = client.post(path, json=body | {"deadline_ms": 1500})
        assert reply.status_code == 504
        error = reply.json()["error"]
        assert error["code"] == "deadline_exceeded"
        assert "'generate'" in error["message"]
        check_stopped(llm, seen, 504)


def test_a_deadline_ends_a_stream_with_an_error(served):
    found, llm, seen = served
    body = {"question": QUESTION, "stream": True, "deadline_ms": 1500}
    with found.client() as client, client.stream("POST", "/v1/ask", json=body) as reply:
        told = list(events_of(reply.iter_lines()))
    assert [told[0][0], told[-1][0]] == ["hits", "error"]
    assert told[-1][1]["error"]["code"] == "deadline_exceeded"
    assert {name for name, _ in told[1:-1]} == {"token"}
    check_stopped(llm, seen, 504)


def test_others_are_served_meanwhile(served):
    """A slow generator does not stop search."""
    found, llm, _ = served
    body = {"question": QUESTION, "stream": True}
    with found.client() as client, client.stream("POST", "/v1/ask", json=body):
        assert llm.asked.wait(20)
        with found.client() as other:
            assert other.post("/v1/search", json={"query": "rotor"}).status_code == 200
    assert llm.left.wait(LEFT_S)
