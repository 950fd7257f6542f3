"""What the service counts: one table of metrics, and the two places that they are kept in.

In one process that is a registry of prometheus_client; in a replica of Ray Serve it is
`ray.serve.metrics`, whose series the agents of the cluster's nodes export with the prefix `ray_`.
Labels have few values: routes by template, stages, codes, names of keys. No text of a question or
document is among them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

# Seconds: searches take milliseconds, answers of language models up to a minute.
SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip

REPEAT_S = 1.0


@dataclass(frozen=True)
class Metric:
    """A metric by its exported name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = SECONDS


REQUESTS = Metric(
    "rag_cluster_requests_total", "counter",
    "HTTP requests that have ended, by the template of their route, status and name of the key",
    ("route", "status", "key"),
)  # fmt: skip
ERRORS = Metric(
    "rag_cluster_errors_total", "counter",
    "Requests that ended with an error, by its code; those that failed while they streamed too",
    ("route", "code"),
)  # fmt: skip
REQUEST_SECONDS = Metric(
    "rag_cluster_request_seconds", "histogram",
    "Seconds from a request to the end of its reply", ("route",),
)  # fmt: skip
AT_WORK = Metric("rag_cluster_requests_at_work", "gauge", "Requests that have not ended")
STAGE_SECONDS = Metric(
    "rag_cluster_stage_seconds", "histogram",
    "Seconds of a stage of the query path; total is the whole of it", ("route", "stage"),
)  # fmt: skip
FIRST_TOKEN_SECONDS = Metric(
    "rag_cluster_first_token_seconds", "histogram",
    "Seconds from a request to the first piece of its streamed answer", ("route",),
)  # fmt: skip
TOKENS = Metric(
    "rag_cluster_tokens_total", "counter",
    "Tokens of prompts and completions, as far as the generator's engine tells them", ("kind",),
)  # fmt: skip
EMPTY = Metric(
    "rag_cluster_empty_results_total", "counter", "Queries that found nothing", ("route",)
)
CACHE = Metric(
    "rag_cluster_cache_lookups_total", "counter",
    "Lookups in a cache of the query path, by whether it had the answer (hit, miss)",
    ("cache", "result"),
)  # fmt: skip
VERDICTS = Metric(
    "rag_cluster_guardrail_verdicts_total", "counter",
    "Verdicts of guardrails on answers", ("rule", "status"),
)  # fmt: skip
VERSION = Metric(
    "rag_cluster_version_info", "gauge",
    "1 for the version of the collection that answers, 0 for those before it", ("version",),
)  # fmt: skip
LINES_LOST = Metric(
    "rag_cluster_log_lines_lost_total", "counter", "Lines of the query log that were not written"
)

METRICS = (
    REQUESTS, ERRORS, REQUEST_SECONDS, AT_WORK, STAGE_SECONDS, FIRST_TOKEN_SECONDS, TOKENS, EMPTY,
    CACHE, VERDICTS, VERSION, LINES_LOST,
)  # fmt: skip


class Meters(Protocol):
    """Where metrics are kept. Each call names all labels of its metric."""

    def add(self, metric: Metric, value: float = 1.0, **labels: str) -> None:
        """Counts; a counter is not told of a value that is not above 0."""

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Puts a value into a histogram."""

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """Sets a gauge."""

    async def text(self) -> str:
        """All series in Prometheus' text format."""


class LocalMeters:
    """A registry of this process."""

    def __init__(self) -> None:
        import prometheus_client as prometheus

        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = prometheus.CollectorRegistry()
        self._series: dict[str, Any] = {}
        for metric in METRICS:
            known = (metric.name, metric.help, metric.labels)
            match metric.kind:
                case "counter":
                    series: Any = prometheus.Counter(*known, registry=self._registry)
                case "gauge":
                    series = prometheus.Gauge(*known, registry=self._registry)
                case "histogram":
                    series = prometheus.Histogram(
                        *known, registry=self._registry, buckets=metric.buckets
                    )
            self._series[metric.name] = series

    def add(self, metric: Metric, value: float = 1.0, **labels: str) -> None:
        """See `Meters`."""
        if value > 0:
            self._of(metric, labels).inc(value)

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """See `Meters`."""
        self._of(metric, labels).observe(value)

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """See `Meters`."""
        self._of(metric, labels).set(value)

    async def text(self) -> str:
        """See `Meters`."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry).decode()

    def _of(self, metric: Metric, labels: Mapping[str, str]) -> Any:
        series = self._series[metric.name]
        return series.labels(**labels) if metric.labels else series


class RayMeters:
    """The series of a replica of Ray Serve, to which Ray adds application, deployment and replica.

    Ray sends them to the agent of their node every few seconds. It sends counts of buckets and not
    the values, so the `_sum` of a histogram is approximate. The agent forgets a gauge that is not
    set again within two of its intervals, so all are, every second. To be made in the replica
    itself.
    """

    def __init__(self) -> None:
        from ray import serve
        from ray.serve import metrics

        self._application = serve.get_replica_context().app_name
        self._series: dict[str, Any] = {}
        self._gauges: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for metric in METRICS:
            known = (metric.name, metric.help)
            match metric.kind:
                case "counter":
                    series: Any = metrics.Counter(*known, tag_keys=metric.labels)
                case "gauge":
                    series = metrics.Gauge(*known, tag_keys=metric.labels)
                case "histogram":
                    series = metrics.Histogram(
                        *known, boundaries=list(metric.buckets), tag_keys=metric.labels
                    )
            self._series[metric.name] = series
        threading.Thread(target=self._repeat, name="gauges", daemon=True).start()

    def add(self, metric: Metric, value: float = 1.0, **labels: str) -> None:
        """See `Meters`."""
        if value > 0:
            self._series[metric.name].inc(value, labels)

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """See `Meters`."""
        self._series[metric.name].observe(value, labels)

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """See `Meters`."""
        self._gauges[metric.name, tuple(labels.items())] = value
        self._series[metric.name].set(value, labels)

    def _repeat(self) -> None:
        while True:
            time.sleep(REPEAT_S)
            for (name, labels), value in list(self._gauges.items()):
                self._series[name].set(value, dict(labels))

    async def text(self) -> str:
        """See `Meters`: this application's series as the agents of all nodes export them."""
        from serve.exports import of_all_nodes

        return await of_all_nodes(self._application)
