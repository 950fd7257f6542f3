"""What is kept of requests and queries: metrics, a line in the log, spans of a trace."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rag_cluster.config import Config
from serve.metrics import (
    CACHE,
    EMPTY,
    FIRST_TOKEN_SECONDS,
    STAGE_SECONDS,
    TOKENS,
    VERDICTS,
    VERSION,
    LocalMeters,
    Meters,
)
from serve.querylog import QueryLog
from serve.record import REQUEST_SPAN, Record

if TYPE_CHECKING:
    from serve.traces import RequestSpan, Traces

__all__ = ["Observer", "Record"]

log = logging.getLogger(__name__)

# The routes by the names that records have.
TEMPLATES = {"search": "/v1/search", "ask": "/v1/ask", "chat": "/v1/chat/completions"}


@dataclass
class Observer:
    """Is told of every request, and of every query when it has ended."""

    meters: Meters = field(default_factory=LocalMeters)
    log: QueryLog | None = None
    traces: Traces | None = None
    _version: str | None = field(default=None, init=False)
    _failed: set[tuple[str, type[Exception]]] = field(default_factory=set, init=False)

    @classmethod
    def of(cls, config: Config, meters: Meters, replica: str | None = None) -> Observer:
        """The observer that a configuration asks for; `replica` names its file of the log.

        Raises ConfigError and MissingExtraError.
        """
        traces, lines = None, None
        if config.service.otlp is not None:
            from serve.traces import Traces

            traces = Traces.to(config.service.otlp)
        if config.service.log.folder is not None:
            lines = QueryLog(config, meters, replica)
        return cls(meters, lines, traces)

    def close(self) -> None:
        """Writes and sends what is still to be written and sent."""
        if self.log is not None:
            self.log.close()
        if self.traces is not None:
            self.traces.close()

    @contextlib.contextmanager
    def request_span(
        self, method: str, headers: Iterable[tuple[bytes, bytes]]
    ) -> Iterator[RequestSpan | None]:
        """The span of a request, where traces are kept: queries within it become its children."""
        if self.traces is None:
            yield None
            return
        span = self.traces.request(method, headers)
        token = REQUEST_SPAN.set(span)
        try:
            yield span
        finally:
            REQUEST_SPAN.reset(token)

    def ended(self, record: Record) -> None:
        """Keeps what is to be kept of a query. A failure here is logged: the query stands."""
        self._keep("metrics", self._count, record)
        if self.log is not None:
            self._keep("log", self.log.add, record)
        if record.span is not None:
            self._keep("trace", record.span.stages, record)

    def _keep(self, place: str, keep: Callable[[Record], None], record: Record) -> None:
        """Has a place keep a query; its failure costs no other place, and is logged once."""
        try:
            keep(record)
        except Exception as error:  # the query was answered, whatever becomes of its record
            kind = (place, type(error))
            if kind not in self._failed:
                self._failed.add(kind)
                log.exception(
                    "the query %s was not recorded in the %s; the next failures like it are not "
                    "logged",
                    record.id, place,
                )  # fmt: skip

    def version(self, name: str | None) -> None:
        """Says which version of the collection answers."""
        if name is None or name == self._version:
            return
        if self._version is not None:
            self.meters.set(VERSION, 0, version=self._version)
        self.meters.set(VERSION, 1, version=name)
        self._version = name

    def _count(self, record: Record) -> None:
        meters, route = self.meters, TEMPLATES.get(record.route, record.route)
        self.version(record.version)
        for stage, milliseconds in record.timings_ms.items():
            if stage != "first_token":
                meters.observe(STAGE_SECONDS, milliseconds / 1e3, route=route, stage=stage)
        first = record.extra.get("first_token_s")
        if first is not None:
            meters.observe(FIRST_TOKEN_SECONDS, first, route=route)
        if record.found is not None:
            if not record.found.hits:
                meters.add(EMPTY, route=route)
            for cache, hit in record.found.cached.items():
                meters.add(CACHE, cache=cache, result="hit" if hit else "miss")
        if record.answer is not None:
            meters.add(TOKENS, record.answer.prompt_tokens, kind="prompt")
            meters.add(TOKENS, record.answer.completion_tokens, kind="completion")
            for verdict in record.answer.guardrails:
                meters.add(VERDICTS, rule=verdict.rule, status=verdict.status)
