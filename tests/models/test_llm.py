import asyncio
import json
import math
import re
import threading
import time

import chat_server
import pytest
from chat_server import Reply

from rag_cluster.config import LanguageModel
from rag_cluster.errors import ConfigError, ServiceError
from rag_cluster.models.llm import load_llm
from rag_cluster.models.ports import Message, Request

REQUEST = Request((Message("user", "what is a cat"),), max_tokens=9, stop=("END",))
BUSY = {"Retry-After": "0"}


class Script:
    """Replies in order, the last one for ever; keeps the calls."""

    def __init__(self, *replies):
        self.calls = []
        self.replies = list(replies)

    def __call__(self, call):
        self.calls.append(call)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        return chat_server.answer(reply, call) if isinstance(reply, str) else reply


def ask(url, *, stream=False, **keys):
    async def run():
        llm = load_llm(LanguageModel(engine="openai", model="tiny", base_url=url, **keys))
        try:
            if stream:
                return [piece async for piece in llm.stream(REQUEST)]
            return await llm.generate(REQUEST)
        finally:
            await llm.aclose()

    return asyncio.run(run())


def test_the_request_and_the_answer_are_passed_on():
    script = Script("an animal")
    with chat_server.serve(script) as url:
        done = ask(url)
    assert (done.text, done.prompt_tokens, done.completion_tokens) == ("an animal", 7, 3)
    assert script.calls[0]["messages"] == [{"role": "user", "content": "what is a cat"}]
    assert (script.calls[0]["max_tokens"], script.calls[0]["stop"]) == (9, ["END"])
    assert script.calls[0]["temperature"] == 0


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(status):
    script = Script(Reply(status, headers=BUSY), Reply(status, headers=BUSY), "an animal")
    with chat_server.serve(script) as url:
        assert ask(url).text == "an animal"
    assert len(script.calls) == 3


def test_a_server_that_stays_busy_is_an_error_with_its_tries():
    script = Script(Reply(429, headers=BUSY))
    with chat_server.serve(script) as url, pytest.raises(ServiceError, match="3 tries: HTTP 429"):
        ask(url, retries=2)
    assert len(script.calls) == 3


def test_a_wrong_request_is_not_repeated():
    script = Script(Reply(400, b'{"error": {"message": "no such model"}}'))
    with chat_server.serve(script) as url, pytest.raises(ServiceError, match="HTTP 400"):
        ask(url)
    assert len(script.calls) == 1


def test_a_server_that_hangs_is_left_after_the_timeout():
    released = threading.Event()
    with chat_server.serve(Script(Reply(wait=released))) as url:
        start = time.monotonic()
        with pytest.raises(ServiceError, match="no answer in time"):
            ask(url, timeout_s=0.5, retries=0)
        assert time.monotonic() - start < 15
        released.set()


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(ServiceError, match=r"127\.0\.0\.1:9/v1"):
        ask("http://127.0.0.1:9/v1", retries=0)


def test_an_empty_answer_is_an_error():
    with chat_server.serve(Script("")) as url, pytest.raises(ServiceError, match="without text"):
        ask(url)


def content(value, **more):
    return json.dumps({"choices": [{"message": {"content": value}}]} | more).encode()


NO_COMPLETION = [
    b"<html>hi</html>", b"", b"[1]", b"5", b"null", b'{"choices": 5}', b'{"choices": [null]}',
    content([{"type": "text", "text": "x"}]), content(5), b'{"choices": "\xff"}', b"[" * 200_000,
]  # fmt: skip


@pytest.mark.parametrize("body", NO_COMPLETION, ids=lambda body: repr(body[:30]))
@pytest.mark.parametrize("kind", ["application/json", "text/html"])
def test_an_answer_that_is_no_completion_is_an_error(body, kind):
    with (
        chat_server.serve(Script(Reply(body=body, headers={"Content-Type": kind}))) as url,
        pytest.raises(ServiceError, match=re.escape(url)),
    ):
        ask(url, retries=0)


@pytest.mark.parametrize(
    "usage", ["x", 5, [], {"prompt_tokens": None}, {"prompt_tokens": "a", "completion_tokens": -5}]
)
def test_an_odd_usage_counts_nothing(usage):
    with chat_server.serve(Script(Reply(body=content("Ten.", usage=usage)))) as url:
        done = ask(url)
    assert (done.text, done.prompt_tokens, done.completion_tokens) == ("Ten.", 0, 0)


def stream_of(*events):
    body = b"".join(b"data: " + event + b"\n\n" for event in [*events, b"[DONE]"])
    return Reply(body=body, headers={"Content-Type": "text/event-stream"})


def delta(text):
    return json.dumps({"choices": [{"delta": {"content": text}}]}).encode()


@pytest.mark.parametrize(
    "event",
    [b"{nope", b"5", b'{"choices": 5}', b'{"choices": [{"delta": null}]}', delta(5), delta([])],
)
def test_a_stream_that_is_none_is_an_error(event):
    with chat_server.serve(Script(stream_of(event))) as url, pytest.raises(ServiceError):
        ask(url, stream=True, retries=0)


def test_halves_of_a_character_are_joined_or_replaced():
    with chat_server.serve(Script(stream_of(delta("a\ud83d"), delta("\ude00b")))) as url:
        assert ask(url, stream=True) == ["a", "\U0001f600b"]
    with chat_server.serve(Script(Reply(body=content("Ten \ud800 [1].")))) as url:
        assert ask(url).text == "Ten \ufffd [1]."


def test_the_key_is_not_passed_on(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-SECRET")
    reply = Reply(400, body=b'{"error": {"message": "bad key sk-SECRET"}}')
    with chat_server.serve(Script(reply)) as url, pytest.raises(ServiceError) as raised:
        ask(url)
    assert "bad key ***" in str(raised.value)


def test_a_stream_comes_in_pieces_after_a_busy_reply():
    script = Script(Reply(429, headers=BUSY), "a small animal")
    with chat_server.serve(script) as url:
        assert ask(url, stream=True) == ["a ", "small ", "animal"]


def test_what_is_missing_is_said():
    with pytest.raises(ConfigError, match=r"llm\.model"):
        load_llm(LanguageModel(engine="openai", base_url="http://localhost/v1"))
    with pytest.raises(ConfigError, match="NO_SUCH_KEY"):
        load_llm(LanguageModel(engine="openai", model="m", api_key_env="NO_SUCH_KEY"))
    with pytest.raises(ConfigError, match=r"llm\.engine"):
        load_llm(LanguageModel())
    with pytest.raises(ConfigError, match="vllm serve"):
        load_llm(LanguageModel(engine="vllm", model="m"))


def likelihoods(url, **keys):
    async def run():
        llm = load_llm(LanguageModel(engine="openai", model="tiny", base_url=url, **keys))
        try:
            return await llm.likelihoods(REQUEST, ("yes", "no"))
        finally:
            await llm.aclose()

    return asyncio.run(run())


def test_a_choice_is_as_likely_as_all_its_spellings():
    calls = []
    listed = {"Yes": math.log(0.5), " yes": math.log(0.2), "No": math.log(0.1), "the": -3.0}

    def decide(call):
        calls.append(call)
        return chat_server.likely(listed, call)

    with chat_server.serve(decide) as url:
        yes, no = likelihoods(url)
    assert (math.exp(yes), math.exp(no)) == pytest.approx((0.7, 0.1))
    assert (calls[0]["logprobs"], calls[0]["top_logprobs"]) == (True, 20)
    assert calls[0]["max_tokens"] == 1


def test_a_choice_that_is_not_listed_has_no_likelihood():
    with chat_server.serve(lambda call: chat_server.likely({"Yes": -0.1}, call)) as url:
        assert likelihoods(url) == [pytest.approx(-0.1), -math.inf]


@pytest.mark.parametrize("listed", [None, {}])
def test_a_server_without_likelihoods_is_named(listed):
    with (
        chat_server.serve(lambda call: chat_server.likely(listed, call)) as url,
        pytest.raises(ServiceError, match="gives no likelihoods of tokens"),
    ):
        likelihoods(url)
