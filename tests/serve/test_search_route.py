"""POST /v1/search and POST /v1/ask over HTTP: what they answer, and what a request may set."""

import pytest
from api_service import events_of

SEARCH = {"query": "How fast does the acme rotor turn?"}
ASK = {"question": "How fast does the acme rotor turn?"}


def post(client, path, body, status=200):
    reply = client.post(path, json=body)
    assert reply.status_code == status, reply.text
    return reply.json()


def test_a_search_finds_passages_with_where_each_channel_has_them(client):
    found = post(client, "/v1/search", SEARCH | {"top_k": 3})
    assert found["version"] == "v000001"
    assert found["query"] == SEARCH["query"]
    first, *others = found["hits"]
    assert len(others) == 2
    assert "4000 rounds per minute" in first["text"]
    assert first["rank"] == 1
    assert set(first["channels"]) == {"dense", "bm25"}
    assert first["channels"]["bm25"]["rank"] >= 1
    assert found["timings_ms"]["total"] > 0


def test_every_reply_of_a_query_has_its_id_in_a_header(client):
    reply = client.post("/v1/search", json=SEARCH)
    assert reply.headers["x-request-id"] == reply.json()["id"]
    failed = client.post("/v1/search", json=SEARCH | {"filter": {"colour": "red"}})
    assert failed.status_code == 400
    assert len(failed.headers["x-request-id"]) == 32
    other = client.post("/v1/search", json=SEARCH).json()["id"]
    assert other != reply.json()["id"]


def test_an_answer_is_cited(client):
    found = post(client, "/v1/ask", ASK)
    assert "4000 rounds per minute" in found["answer"]
    citation = found["citations"][0]
    assert citation["quote"] in found["answer"] or "4000" in citation["quote"]
    assert citation["doc_id"] in {hit["doc_id"] for hit in found["hits"]}
    assert {"injection", "coverage", "grounding"} <= set(found["guardrails"])


def test_a_citation_of_a_pdf_names_its_page(client):
    found = post(client, "/v1/ask", {"question": "What does part 2 of the globex turbine weigh?"})
    assert any(citation["page"] == 2 for citation in found["citations"])


def test_a_stream_tells_hits_then_pieces_then_the_answer(client):
    with client.stream("POST", "/v1/ask", json=ASK | {"stream": True}) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert "content-length" not in reply.headers
        told = list(events_of(reply.iter_lines()))
    names = [name for name, _ in told]
    assert names[0] == "hits"
    assert set(names[1:-1]) == {"token"}
    assert names[-1] == "answer"
    whole = post(client, "/v1/ask", ASK)
    hits, answer = told[0][1], told[-1][1]
    assert hits["hits"] == whole["hits"]
    assert answer["answer"] == whole["answer"]
    assert answer["citations"] == whole["citations"]
    assert answer["id"] == hits["id"] == reply.headers["x-request-id"]
    assert "".join(data["text"] for name, data in told if name == "token").strip()


def test_an_error_before_the_first_event_of_a_stream_is_an_ordinary_reply(client):
    body = ASK | {"stream": True, "filter": {"colour": "red"}}
    failed = post(client, "/v1/ask", body, 400)
    assert "'colour'" in failed["error"]["message"]


@pytest.mark.parametrize(
    ("option", "check"),
    [
        ({"top_k": 1}, lambda found: len(found["hits"]) == 1),
        ({"filter": {"year": 2020}}, lambda found: {h["title"] for h in found["hits"]}
         == {"acme report 2020", "globex report 2020"}),
        ({"channels": ["bm25"]}, lambda found: set(found["hits"][0]["channels"]) == {"bm25"}),
        ({"transform": "feedback"}, lambda found: found["transform"]["kind"] == "feedback"),
        ({"rerank": "late_interaction"}, lambda found: "rerank" in found["timings_ms"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_request_may_set_what_concerns_it_alone(client, option, check):
    assert check(post(client, "/v1/search", SEARCH | option))


@pytest.mark.parametrize(
    ("option", "param", "says"),
    [
        ({"top_k": 101}, "top_k", "is 101; the most is 100"),
        ({"top_k": 0}, "top_k", "greater than or equal to 1"),
        ({"deadline_ms": 20_001}, "deadline_ms", "the most is 20,000"),
        ({"transform": "hyde"}, "transform", "but 'none', 'feedback'"),
        ({"rerank": "x" * 1000}, "rerank", "not allowed by this service"),
        ({"channels": ["splade"]}, "channels", "but 'dense', 'bm25'"),
        ({"channels": []}, "channels", "at least 1"),
        ({"deadline_ms": True}, "deadline_ms", "a number is asked for"),
        ({"query": "x" * 4001}, "query", "has 4,001 characters; the most is 4,000"),
        ({"query": " \n"}, "query", "query is empty"),
        ({"query": None}, "query", "valid string"),
        ({"qurey": "x"}, "qurey", "Extra inputs"),
        ({"filter": [1]}, "filter", "valid dictionary"),
        ({"filter": {"or": [{"year": n} for n in range(101)]}}, "filter", "has 102 conditions"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_is_beyond_the_limits_is_refused(client, option, param, says):
    error = post(client, "/v1/search", SEARCH | option, 400)["error"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert says in error["message"]


@pytest.mark.parametrize(
    ("option", "param"), [({"max_tokens": 2001}, "max_tokens"), ({"temperature": 3}, "temperature")]
)
def test_the_generators_settings_have_limits_too(client, option, param):
    assert post(client, "/v1/ask", ASK | option, 400)["error"]["param"] == param
    assert post(client, "/v1/ask", ASK | {"max_tokens": 50, "temperature": 0.5})["answer"]


@pytest.mark.parametrize(
    "where",
    [{"year": "many"}, {"year": {"near": 1}}, {"and": []}, {"year": {}}, {"not": 1}, {"x": 1}],
    ids=str,
)
def test_a_filter_that_is_none_is_explained(client, where):
    error = post(client, "/v1/search", SEARCH | {"filter": where}, 400)["error"]
    assert error["code"] == "invalid_request"
    assert error["message"]
