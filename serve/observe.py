"""What is kept of every query."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from rag_cluster.answer.found import SearchResult
from rag_cluster.answer.writing import Answer
from serve.keys import Caller
from serve.options import Options


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


class Observer:
    """Is told of every query when it has ended."""

    def ended(self, record: Record) -> None:
        """Keeps what is to be kept of it."""
