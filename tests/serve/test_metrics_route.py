"""What requests leave in GET /metrics, and who may read it."""

import time

import httpx2 as httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from stand_in import app_with, running, settled

from serve.keys import Keys, hash_of

SECRET = "tell nobody about the mast"


def samples(text):
    return {
        (one.name, *(value for _, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def post(url, path, **body):
    return httpx.post(f"{url}{path}", json=body, timeout=10)


@pytest.fixture(scope="module")
def served():
    """The text of /metrics after one of each request."""
    with running(app_with(settled())) as url:
        assert post(url, "/v1/search", query=SECRET).status_code == 200
        post(url, "/v1/search", query="nothing")
        post(url, "/v1/search", query="mast", filter={"title": "Manual"})
        post(url, "/v1/search", query="fail")
        post(url, "/v1/search", query="mast", unknown=1)
        assert post(url, "/v1/ask", question=SECRET).json()["citations"]
        assert "event: answer" in post(url, "/v1/ask", question="mast", stream=True).text
        assert "event: error" in post(url, "/v1/ask", question="broken", stream=True).text
        chat = {"messages": [{"role": "user", "content": "mast"}]}
        assert post(url, "/v1/chat/completions", **chat).status_code == 200
        post(url, "/v1/rerank", query="mast", documents=["a", "b"])
        post(url, "/v1/embeddings", input="mast")
        httpx.get(f"{url}/v1/documents/one")
        httpx.get(f"{url}/v1/documents/two")
        for number in range(5):
            httpx.get(f"{url}/wp-admin/{number}")
        httpx.get(f"{url}/readyz")
        reply = httpx.get(f"{url}/metrics")
        yield reply.headers["content-type"], reply.text


@pytest.fixture(scope="module")
def found(served):
    return samples(served[1])


def test_the_type_is_that_of_prometheus(served):
    assert served[0].startswith("text/plain; version=0.0.4")


def test_requests_are_counted_by_template_status_and_key(found):
    counted = {key[1:]: value for key, value in found.items() if key[0].endswith("requests_total")}
    assert counted == {
        ("anonymous", "/v1/search", "200"): 3,
        ("anonymous", "/v1/search", "502"): 1,
        ("anonymous", "/v1/search", "400"): 1,
        ("anonymous", "/v1/ask", "200"): 3,
        ("anonymous", "/v1/chat/completions", "200"): 1,
        ("anonymous", "/v1/rerank", "200"): 1,
        ("anonymous", "/v1/embeddings", "200"): 1,
        ("anonymous", "/v1/documents/{doc_id}", "404"): 2,
        ("", "other", "404"): 5,
        ("", "/readyz", "200"): 1,
    }


def test_errors_are_counted_by_code_also_where_a_stream_broke_off(found):
    errors = {key[1:]: value for key, value in found.items() if key[0].endswith("errors_total")}
    assert errors == {
        ("model_failed", "/v1/search"): 1,
        ("invalid_request", "/v1/search"): 1,
        ("model_failed", "/v1/ask"): 1,
        ("not_found", "/v1/documents/{doc_id}"): 2,
        ("not_found", "other"): 5,
    }


def test_stages_are_histograms(found):
    count = "rag_cluster_stage_seconds_count"
    for stage in ("filter", "encode", "dense", "bm25", "fuse", "total"):
        assert found[count, "/v1/search", stage] == 3
    for stage in ("generate", "check", "guard"):
        assert found[count, "/v1/ask", stage] == 2
        assert found[count, "/v1/chat/completions", stage] == 1
    assert (count, "/v1/ask", "first_token") not in found
    assert found["rag_cluster_stage_seconds_sum", "/v1/search", "encode"] == pytest.approx(0.012)
    assert found["rag_cluster_stage_seconds_bucket", "0.005", "/v1/search", "encode"] == 3
    assert found["rag_cluster_request_seconds_count", "/v1/rerank"] == 1


def test_streams_have_a_time_to_the_first_token(found):
    assert found["rag_cluster_first_token_seconds_count", "/v1/ask"] == 2
    assert ("rag_cluster_first_token_seconds_count", "/v1/chat/completions") not in found


def test_tokens_empty_results_caches_verdicts_and_version(found):
    assert found["rag_cluster_tokens_total", "prompt"] == 42
    assert found["rag_cluster_tokens_total", "completion"] == 18
    assert found["rag_cluster_empty_results_total", "/v1/search"] == 1
    assert found["rag_cluster_cache_lookups_total", "filter", "hit"] == 1
    assert found["rag_cluster_version_info", "v000007"] == 1
    assert found["rag_cluster_requests_at_work",] == 1  # this one
    assert found["rag_cluster_log_lines_lost_total",] == 0
    verdicts = {key[1] for key in found if key[0] == "rag_cluster_guardrail_verdicts_total"}
    assert "coverage" in verdicts


def test_no_text_of_a_question_or_a_document_is_in_it(served):
    assert "nobody" not in served[1]
    assert "hedge" not in served[1]


def test_a_client_that_goes_away_is_counted_as_such():
    with running(app_with(settled())) as url:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/v1/search", json={"query": "forever"}, timeout=0.3)
        key = ("rag_cluster_requests_total", "anonymous", "/v1/search", "499")
        until = time.monotonic() + 5
        while (found := samples(httpx.get(f"{url}/metrics").text)).get(key) is None:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert found["rag_cluster_errors_total", "client_closed_request", "/v1/search"] == 1


def test_with_keys_only_one_without_a_filter_reads_metrics(tmp_path):
    callers = [
        {"name": "operator", "hash": hash_of("rag-operator")},
        {"name": "acme", "hash": hash_of("rag-acme"), "filter": {"title": "Manual"}},
    ]
    path = tmp_path / "keys.yaml"
    path.write_text(yaml.safe_dump(callers))
    with running(app_with(settled(), Keys.read(str(path)))) as url:

        def get(key):
            headers = {} if key is None else {"Authorization": f"Bearer {key}"}
            return httpx.get(f"{url}/metrics", headers=headers)

        assert get(None).status_code == 401
        refused = get("rag-acme")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "key_has_filter")
        text = get("rag-operator").text
    found = samples(text)
    assert found["rag_cluster_requests_total", "", "/metrics", "401"] == 1
    assert found["rag_cluster_requests_total", "acme", "/metrics", "403"] == 1
    assert "rag-operator" not in text
