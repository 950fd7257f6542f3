"""Bodies that are no JSON, too large, too slow: each is refused in the one shape."""

import json
import socket
import time

import httpx2 as httpx
import pytest
from api_service import running

from serve.api.incoming import strict_json

JSON = {"Content-Type": "application/json"}


def refused(reply, status, code):
    assert reply.status_code == status, reply.text
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "code", "param"}
    assert error["code"] == code
    assert error["message"]
    return error


@pytest.mark.parametrize(
    "body",
    [
        b'{"query": "x"',
        b'{"query": "x",}',
        b"{'query': 'x'}",
        b'\xef\xbb\xbf{"query": "x"}',
        b'{"query": "\xff\xfe"}',
        b'{"query": "\\ud800"}',
        b'{"query": "x", "filter": {"\\udc00": 1}}',
        b'{"\\ud83d": "x"}',
        b'{"query": "x", "top_k": NaN}',
        b'{"query": "x", "filter": {"year": Infinity}}',
        b'{"query": "x", "filter": {"year": -Infinity}}',
        b'{"query": "x", "filter": {"year": 1e999}}',
        b'{"query": "x", "top_k": ' + b"9" * 5000 + b"}",
        b'{"query": "x", "query": "y"}',
        b"[" * 5000,
        b'{"query": "x", "filter": ' + b'{"not":' * 120 + b"1" + b"}" * 121,
        b'{"query": "x", "filter": {"year": ' + b"[" * 900 + b"]" * 900 + b"}}",
        b'{"query": "a\nb"}',
        b"\x00",
    ],
    ids=lambda body: repr(body[:40]),
)
def test_what_is_no_json_is_refused(client, body):
    refused(client.post("/v1/search", content=body, headers=JSON), 400, "invalid_json")


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"1", b"null", b"true", b"", b"{}"])
def test_json_that_is_no_request_is_refused(client, body):
    refused(client.post("/v1/search", content=body, headers=JSON), 400, "invalid_request")


def test_what_is_wrong_is_said_of_the_kind_that_was_sent(client):
    empty = refused(client.post("/v1/embeddings", json={"input": []}), 400, "invalid_request")
    assert empty["message"].startswith("input: List should have at least 1 item")
    odd = {"query": "x", "documents": ["a", {"text": 3}]}
    assert refused(client.post("/v1/rerank", json=odd), 400, "invalid_request")["param"] == (
        "documents.1.text"
    )


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_can_be_asked_without_a_body(client, path):
    reply = client.head(path)
    assert (reply.status_code, reply.content) == (200, b"")


@pytest.mark.parametrize(
    "kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json"]
)
def test_a_body_must_be_sent_as_json(client, kind):
    headers = {} if kind is None else {"Content-Type": kind}
    reply = client.post("/v1/search", content=b'{"query": "x"}', headers=headers)
    refused(reply, 415, "unsupported_media_type")


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON",
                                  "application/vnd.api+json"])  # fmt: skip
def test_kinds_of_json_are_taken(client, kind):
    content, headers = b'{"query": "rotor"}', {"Content-Type": kind}
    assert client.post("/v1/search", content=content, headers=headers).status_code == 200


def test_text_of_all_scripts_is_taken(client):
    for query in ("Ωμέγα", "泵", "🌷", "\u0000 x", "\u202e x", "a\u0301"):
        reply = client.post("/v1/search", json={"query": query})
        assert reply.status_code == 200, reply.text
        assert reply.json()["query"] == query.strip()


def test_a_body_that_is_too_large(client):
    large = {"query": "x", "filter": {"tenant": ["y" * 100] * 3000}}
    error = refused(client.post("/v1/search", json=large), 413, "body_too_large")
    assert error["message"] == "the body is larger than 256 KiB"


def test_a_body_that_is_too_large_and_says_no_length(client):
    chunks = (b" " * 10_000 for _ in range(60))
    refused(client.post("/v1/search", content=chunks, headers=JSON), 413, "body_too_large")


def test_a_body_in_parts_is_read_whole(client):
    parts = iter([b'{"que', b'ry": "ro', b'tor"}'])
    assert client.post("/v1/search", content=parts, headers=JSON).status_code == 200


def test_a_length_without_end_is_refused_before_it_comes(service):
    """Nothing but the head is sent, and it announces a terabyte."""
    head = (
        b"POST /v1/search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 1099511627776\r\n\r\n"
    )
    reply = sent(service.url, head + b" " * 100)
    assert reply.startswith(b"HTTP/1.1 413")


def sent(url, data, wait=0.0):
    """What comes back on a connection that sends this and no more."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(data)
        time.sleep(wait)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    return b"".join(parts)


def test_a_body_that_does_not_come(tenants):
    with running(tenants, "service.limits.body_s=0.3") as slow:
        head = (
            b"POST /v1/search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 20\r\n\r\n"
        )
        start = time.monotonic()
        reply = sent(slow.url, head + b'{"query"')
        assert time.monotonic() - start < 10
        assert reply.startswith(b"HTTP/1.1 408")
        assert b"connection: close" in reply.lower()
        error = json.loads(reply.split(b"\r\n\r\n", 1)[1])["error"]
        assert error["code"] == "body_too_slow"
        # What is there at once is not touched by that.
        assert httpx.post(f"{slow.url}/v1/search", json={"query": "rotor"}).status_code == 200


def test_the_path_and_the_query_are_checked_too(client):
    for path in ("/v1/documents/%ff%fe", "/v1/documents/..%2f..%2fetc", "/v1/chunks/%00"):
        refused(client.get(path), 404, "not_found")
    for params in ({"start": "-1"}, {"start": "x"}, {"start": "9" * 5000}, {"end": "1e3"}):
        refused(client.get("/v1/documents/x", params=params), 400, "invalid_request")


def test_strict_json_is_json():
    value = {"a": [1, -2.5, 1e3, "x\U0001f337", None, True], "b": {"c": {}}}
    assert strict_json(json.dumps(value).encode()) == value
    assert strict_json(b'"\\ud83c\\udf37"') == "\U0001f337"
    deep = b"[" * 100 + b"]" * 100
    assert strict_json(deep)
    with pytest.raises(json.JSONDecodeError, match="nested more than 100 levels"):
        strict_json(b"[" + deep + b"]")
