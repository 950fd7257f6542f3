"""Spans as a collector receives them: OTLP over HTTP, decoded."""

import contextlib
import gzip
import itertools
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2 as httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from stand_in import app_with, running, settled

from rag_cluster.querylog import Log

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SECRET = "tell nobody about the mast"


class Collector(BaseHTTPRequestHandler):
    """Keeps what is posted to /v1/traces."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.received.append((self.path, self.headers["content-type"], body))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def collector():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.received = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def spans_of(received):
    found = []
    for path, media_type, body in received:
        assert (path, media_type) == ("/v1/traces", "application/x-protobuf")
        message = ExportTraceServiceRequest.FromString(body)
        for resource in message.resource_spans:
            names = {one.key: one.value.string_value for one in resource.resource.attributes}
            assert names["service.name"] == "rag-cluster"
            found += [span for scope in resource.scope_spans for span in scope.spans]
    return found


def attributes(span):
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """The spans of four requests, their bodies, and the lines of the log."""
    folder = tmp_path_factory.mktemp("log")
    with collector() as server:
        config = settled(
            f"service.otlp=http://127.0.0.1:{server.server_port}", f"service.log.folder={folder}"
        )
        with running(app_with(config)) as url:
            parent = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            httpx.post(f"{url}/v1/ask", json={"question": SECRET}, headers=parent)
            httpx.post(f"{url}/v1/ask", json={"question": "broken", "stream": True})
            httpx.post(f"{url}/v1/search", json={"query": "fail"})
            httpx.get(f"{url}/v1/documents/one")
        received = list(server.received)
    return spans_of(received), received, [line for _, line in Log(folder)]


def root(spans, name, number=0):
    return [span for span in spans if span.name == name][number]


def children(spans, parent):
    mine = [span for span in spans if span.parent_span_id == parent.span_id]
    return sorted(mine, key=lambda span: span.start_time_unix_nano)


def test_a_request_goes_on_with_its_callers_trace(traced):
    spans, _, lines = traced
    ask = root(spans, "POST /v1/ask")
    assert ask.trace_id.hex() == TRACE
    assert ask.parent_span_id.hex() == PARENT
    assert ask.kind == ask.SPAN_KIND_SERVER
    known = attributes(ask)
    assert known["http.route"] == "/v1/ask"
    assert known["http.response.status_code"] == 200
    assert known["rag.version"] == "v000007"
    assert known["rag.hits"] == 2
    assert lines[0]["trace_id"] == TRACE
    assert lines[0]["id"] == known["rag.query_id"]


def test_every_stage_is_a_child_with_its_duration(traced):
    spans, _, lines = traced
    ask = root(spans, "POST /v1/ask")
    stages = children(spans, ask)
    assert [span.name for span in stages] == [
        "filter", "encode", "dense", "bm25", "fuse", "generate", "check", "guard"
    ]  # fmt: skip
    took = {
        span.name: (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6 for span in stages
    }
    for name, milliseconds in took.items():
        assert milliseconds == pytest.approx(lines[0]["timings_ms"][name], abs=0.002)
    for before, after in itertools.pairwise(stages):
        assert after.start_time_unix_nano == before.end_time_unix_nano
        assert after.trace_id == ask.trace_id
    assert stages[0].start_time_unix_nano >= ask.start_time_unix_nano


def test_failures_are_errors_of_the_span(traced):
    spans, _, _ = traced
    broken, failed = root(spans, "POST /v1/ask", 1), root(spans, "POST /v1/search")
    absent = root(spans, "GET /v1/documents/{doc_id}")
    for span, code in ((broken, "model_failed"), (failed, "model_failed"), (absent, "not_found")):
        assert span.status.code == span.status.STATUS_CODE_ERROR
        assert attributes(span)["error.type"] == code
    assert not broken.parent_span_id
    assert [span.name for span in children(spans, broken)] == [
        "filter", "encode", "dense", "bm25", "fuse"
    ]  # fmt: skip
    assert children(spans, failed) == children(spans, absent) == []


def test_no_text_leaves_with_the_spans(traced):
    for _, _, body in traced[1]:
        assert b"nobody" not in body
        assert b"hedge" not in body


def test_queries_are_answered_where_no_collector_is():
    with running(app_with(settled("service.otlp=http://127.0.0.1:1"))) as url:
        assert httpx.post(f"{url}/v1/search", json={"query": "mast"}).status_code == 200


def test_an_unsampled_trace_is_not_sent():
    with collector() as server:
        config = settled(f"service.otlp=http://127.0.0.1:{server.server_port}/v1/traces")
        with running(app_with(config)) as url:
            parent = {"traceparent": f"00-{TRACE}-{PARENT}-00"}
            httpx.post(f"{url}/v1/search", json={"query": "mast"}, headers=parent)
        assert server.received == []
