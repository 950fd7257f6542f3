"""The API against its own description, by schemathesis: no 500, and nothing that is not described.

A longer run: SCHEMATHESIS_EXAMPLES=500 python -m pytest tests/serve/test_fuzz.py
"""

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import positive_data_acceptance

EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "10"))
OPERATIONS = [
    ("post", "/v1/search"),
    ("post", "/v1/ask"),
    ("post", "/v1/chat/completions"),
    ("post", "/v1/rerank"),
    ("post", "/v1/embeddings"),
    ("get", "/v1/models"),
    ("get", "/v1/models/{model}"),
    ("get", "/v1/collection"),
    ("get", "/v1/documents/{doc_id}"),
    ("get", "/v1/documents/{doc_id}/pages/{page}"),
    ("get", "/v1/chunks/{chunk_id}"),
    ("get", "/healthz"),
    ("get", "/readyz"),
    ("get", "/metrics"),
]


@pytest.fixture(scope="module")
def described(keyed):
    return schemathesis.openapi.from_url(f"{keyed.url}/openapi.json")


def test_every_operation_is_tried(described):
    told = {(found.ok().method, found.ok().path) for found in described.get_all_operations()}
    assert told == set(OPERATIONS)


@pytest.fixture(scope="module")
def ids(keyed, keys):
    """Of a document with pages and one of its chunks, so that not every request is for nothing."""
    with keyed.client(keys["admin"]) as client:
        found = client.post("/v1/search", json={"query": "turbine", "filter": {
            "author": "Acme Press"}}).json()["hits"][0]  # fmt: skip
    return {"doc_id": found["doc_id"], "chunk_id": found["chunk_id"], "page": 1,
            "model": "rag-cluster"}  # fmt: skip


def with_a_question(case):
    """A conversation has a message of the user, which a schema can hardly say."""
    if isinstance(case.body, dict) and "messages" in case.body:
        question = {"role": "user", "content": "How fast does the rotor turn?"}
        case.body["messages"] = [*case.body["messages"], question]
    return case


def check(cases, keys):
    """The reply to each case is one that the description has, in its status, type and shape."""
    statuses = set()

    @given(case=cases)
    @settings(
        max_examples=EXAMPLES, deadline=None, database=None, derandomize=True,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    def holds(case):
        reply = case.call(headers={"Authorization": f"Bearer {keys['admin']}"}, timeout=30)
        statuses.add(reply.status_code)
        is_late = isinstance(case.body, dict) and "deadline_ms" in case.body
        assert reply.status_code < 500 or (reply.status_code == 504 and is_late), reply.text
        # What a schema cannot say, such as which filters there are, is refused with 400 or 404.
        left_out = [positive_data_acceptance, not_a_server_error]
        case.validate_response(reply, excluded_checks=left_out)

    holds()
    return statuses


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda value: value)
def test_what_fits_the_description_is_answered(described, keys, ids, method, path):
    named = {name: value for name, value in ids.items() if f"{{{name}}}" in path}
    cases = described[path][method].as_strategy(path_parameters=named or None)
    assert 200 in check(cases.map(with_a_question), keys)


@pytest.mark.parametrize(
    ("method", "path"),
    [(method, path) for method, path in OPERATIONS if method == "post" or "{" in path],
    ids=lambda value: value,
)
def test_what_does_not_fit_is_refused(described, keys, method, path):
    cases = described[path][method].as_strategy(generation_mode=GenerationMode.NEGATIVE)
    # Where a case spoils nothing but a header that is not read, it is answered.
    assert check(cases, keys) & {400, 404}
