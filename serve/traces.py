"""OpenTelemetry traces over OTLP/HTTP: a span for every request, one below it for every stage.

A request's `traceparent` header (W3C Trace Context) makes its span part of the caller's trace. No
text of a question or document is in a span.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from rag_cluster.errors import MissingExtraError
from serve.record import Record

try:
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise MissingExtraError(
        "opentelemetry-exporter-otlp-proto-http", "otlp", "service.otlp"
    ) from error

PATH = "/v1/traces"
# Of one export; what a collector does not take in time is dropped, and logged by the exporter.
TIMEOUT_S = 5.0
NOT_STAGES = ("total", "first_token")


class Traces:
    """Sends spans to a collector, in the background."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("rag_cluster.serve")

    @classmethod
    def to(cls, endpoint: str) -> Traces:
        """Traces that go to an endpoint such as http://host:4318, or to a whole url of traces.

        The variables of OpenTelemetry's SDK hold for the rest (sampling, headers, attributes).
        """
        url = endpoint if endpoint.rstrip("/").endswith(PATH) else endpoint.rstrip("/") + PATH
        name = os.environ.get("OTEL_SERVICE_NAME", "rag-cluster")
        resource = Resource.create({"service.name": name})
        provider = TracerProvider(resource=resource)
        provider.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=TIMEOUT_S))
        )
        return cls(provider)

    def close(self) -> None:
        """Sends the spans that are still here."""
        self._provider.shutdown()

    def request(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> RequestSpan:
        """The span of a request that begins now."""
        carrier = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in headers
            if name in (b"traceparent", b"tracestate")
        }
        context = TraceContextTextMapPropagator().extract(carrier)
        span = self._tracer.start_span(
            method, context, SpanKind.SERVER, {"http.request.method": method}
        )
        return RequestSpan(method, span, self._tracer, set_span_in_context(span, context))


@dataclass(frozen=True)
class RequestSpan:
    """The span of a request; `context` is what its children are started in."""

    method: str
    span: Span
    tracer: Tracer
    context: Context

    @property
    def trace_id(self) -> str:
        """As it stands in a traceparent header."""
        return f"{self.span.get_span_context().trace_id:032x}"

    def ended(self, route: str, status: int, code: str | None) -> None:
        """Ends the span with the route's template, the status and the error's code."""
        self.span.update_name(f"{self.method} {route}")
        self.span.set_attribute("http.route", route)
        self.span.set_attribute("http.response.status_code", status)
        if code is not None:
            self.span.set_attribute("error.type", code)
            self.span.set_status(Status(StatusCode.ERROR, code))
        self.span.end()

    def stages(self, record: Record) -> None:
        """A child for every stage of a query, one after the other as they ran.

        Their lengths are what was measured. Where they begin leaves out what lies between them,
        such as the way from one process to another.
        """
        self.span.set_attribute("rag.query_id", record.id)
        if record.version is not None:
            self.span.set_attribute("rag.version", record.version)
        if record.found is not None:
            self.span.set_attribute("rag.hits", len(record.found.hits))
        at = record.began
        for stage, milliseconds in record.timings_ms.items():
            if stage in NOT_STAGES:
                continue
            child = self.tracer.start_span(stage, self.context, start_time=_nanoseconds(at))
            at += milliseconds / 1e3
            child.end(_nanoseconds(at))


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
