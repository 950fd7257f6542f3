"""Conversations over HTTP: earlier turns make the last question one that needs no conversation."""

import pytest
from api_service import events_of, running
from chat_server import Reply, answer, serve

FIRST = {"role": "user", "content": "How fast does the acme rotor turn?"}
SAID = {"role": "assistant", "content": "It turns at 4000 rounds per minute."}
NEXT = {"role": "user", "content": "And how is it cleaned?"}
JOINED = "How fast does the acme rotor turn? And how is it cleaned?"


def complete(client, *messages, **more):
    reply = client.post("/v1/chat/completions", json={"messages": list(messages)} | more)
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_without_a_model_a_rule_joins_what_leans(client):
    found = complete(client, FIRST, SAID, NEXT)
    assert found["question"] == JOINED
    assert "cleaned with oil" in found["choices"][0]["message"]["content"]
    assert "standalone" in found["timings_ms"]
    assert not any("language model" in note for note in found["notes"])


def test_a_question_that_needs_no_turns_stays_as_it_is(client):
    whole = "What does part 2 of the globex turbine weigh?"
    found = complete(client, FIRST, SAID, {"role": "user", "content": whole})
    assert found["question"] == whole
    alone = complete(client, {"role": "user", "content": whole})
    assert alone["hits"] == found["hits"]
    assert "standalone" not in alone["timings_ms"]


def test_the_last_message_of_the_user_is_the_question(client):
    found = complete(client, FIRST, SAID, NEXT, {"role": "assistant", "content": "Well, "})
    assert found["question"] == JOINED
    parts = {"role": "user", "content": [{"type": "text", "text": "And how is"},
             {"type": "text", "text": "it cleaned?"}]}  # fmt: skip
    assert complete(client, FIRST, SAID, parts)["question"] == JOINED


def test_a_stream_says_which_question_was_searched(client):
    body = {"messages": [FIRST, SAID, NEXT], "stream": True}
    with client.stream("POST", "/v1/chat/completions", json=body) as reply:
        *_, last, done = [data for _, data in events_of(reply.iter_lines())]
    assert done == "[DONE]"
    assert last["question"] == JOINED


@pytest.fixture(scope="module")
def understanding(tenants):
    """A service whose language model says what the list holds, and the calls to it."""
    says, calls = [], []

    def decide(call):
        calls.append(call)
        return says[0] if isinstance(says[0], Reply) else answer(says[0], call)

    with serve(decide) as url:
        settings = ("llm.engine=openai", "llm.model=m", f"llm.base_url={url}", "llm.retries=0")
        with running(tenants, *settings) as found, found.client() as client:
            yield client, says, calls


def test_a_model_writes_the_question(understanding):
    client, says, calls = understanding
    says[:] = ['{"question": "How is the globex rotor cleaned?"}']
    calls.clear()
    found = complete(client, FIRST, SAID, NEXT)
    assert found["question"] == "How is the globex rotor cleaned?"
    assert len(calls) == 1
    prompt = calls[0]["messages"][0]["content"]
    assert "User: How fast does the acme rotor turn?" in prompt
    assert "Question: And how is it cleaned?" in prompt


def test_a_first_question_asks_no_model(understanding):
    client, _, calls = understanding
    calls.clear()
    assert complete(client, FIRST)["question"] == FIRST["content"]
    assert not calls


@pytest.mark.parametrize("failure", [Reply(500), "I cannot do that."], ids=["500", "no JSON"])
def test_a_model_that_fails_is_said(understanding, failure):
    client, says, calls = understanding
    says[:] = [failure]
    calls.clear()
    found = complete(client, FIRST, SAID, NEXT)
    assert found["question"] == JOINED
    assert found["notes"][0].startswith("the language model did not make the question standalone")
    assert len(calls) == 1
