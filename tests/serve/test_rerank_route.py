"""POST /v1/rerank in the shapes of Cohere and Jina."""

import pytest
from api_service import running

DOCUMENTS = ["a garden of roses", "the pump is switched off", "switch the pump off first"]
BODY = {"query": "how to switch the pump off", "documents": DOCUMENTS}


def test_a_body_of_cohere(client):
    reply = client.post("/v1/rerank", json=BODY | {"model": "rerank-v3.5", "top_n": 2})
    assert reply.status_code == 200
    found = reply.json()
    assert [result["index"] for result in found["results"]] == [2, 1]
    scores = [result["relevance_score"] for result in found["results"]]
    assert scores == sorted(scores, reverse=True)
    assert found["id"]
    assert "document" not in found["results"][0]


def test_a_body_of_jina(client):
    body = BODY | {"documents": [{"text": text} for text in DOCUMENTS], "return_documents": True}
    found = client.post("/v1/rerank", json=body | {"model": "jina-reranker-v2"}).json()
    assert len(found["results"]) == 3
    assert found["results"][0] == {
        "index": 2,
        "relevance_score": pytest.approx(found["results"][0]["relevance_score"]),
        "document": {"text": DOCUMENTS[2]},
    }
    # By the encoder: 6 words of the query, 4 + 5 + 5 of the documents, two special tokens each.
    assert found["usage"] == {"total_tokens": 20 + 8}
    assert found["model"] == "late_interaction"


def test_a_reranker_of_its_own_counts_no_tokens_of_the_encoder(tenants):
    settings = ("rerank.kind=cross_encoder", "rerank.model=fake:overlap")
    with running(tenants, *settings) as found, found.client() as client:
        reply = client.post("/v1/rerank", json=BODY).json()
    assert reply["model"] == "fake:overlap"
    assert [result["index"] for result in reply["results"]] == [2, 1, 0]
    assert "usage" not in reply


def test_equal_texts_keep_their_order(client):
    found = client.post("/v1/rerank", json=BODY | {"documents": ["same words"] * 4}).json()
    assert [result["index"] for result in found["results"]] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"documents": []}, "documents"),
        ({"documents": ["x"] * 257}, "documents"),
        ({"documents": [1]}, "documents.0"),
        ({"query": " "}, "query"),
        ({"top_n": 0}, "top_n"),
        ({"deadline_ms": 10**9}, "deadline_ms"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_ranked(client, change, param):
    reply = client.post("/v1/rerank", json=BODY | change)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"].startswith(param)


def test_no_text_is_a_text(client):
    found = client.post("/v1/rerank", json=BODY | {"documents": ["", "pump"]})
    assert found.status_code == 200
    assert [result["index"] for result in found.json()["results"]] == [1, 0]
