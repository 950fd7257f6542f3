"""One query, from the request to what became of it."""

from __future__ import annotations

import time
import uuid
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from rag_cluster.answer.found import SearchResult
from rag_cluster.answer.writing import Answer
from serve.keys import Caller
from serve.options import Options

# The span of the request at work (an OpenTelemetry Context), where traces are kept.
REQUEST_SPAN: ContextVar[Any] = ContextVar("request_span", default=None)


@dataclass
class Record:
    """One query, filled in while it is answered. `status` is that of the HTTP reply."""

    route: str
    caller: Caller
    question: str
    options: Options
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    began: float = field(default_factory=time.time)
    version: str | None = None
    found: SearchResult | None = None
    answer: Answer | None = None
    status: int = 200
    code: str | None = None
    seconds: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)
    span: Any = field(default_factory=REQUEST_SPAN.get)

    @property
    def timings_ms(self) -> dict[str, float]:
        """Milliseconds of each stage that was reached, in their order."""
        if self.answer is not None:
            return self.answer.timings_ms
        return {} if self.found is None else self.found.timings_ms
