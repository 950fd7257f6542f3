"""A query log in figures."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import numpy as np

from rag_cluster.querylog.reading import Line, normal


def summary(lines: Iterable[tuple[datetime, Line]]) -> dict[str, Any]:
    """Counts, and the 50th, 95th and 99th percentile of each stage in milliseconds.

    The stage `request` is a query from its beginning to its end, `first_token` from its beginning
    to the first piece of a streamed answer, and `total` the sum of the stages before it.
    """
    times: list[datetime] = []
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("route", "status", "key")}
    stages: dict[str, array[float]] = defaultdict(lambda: array("d"))
    questions: Counter[str] = Counter()
    errors = empty = 0
    for time, line in lines:
        times = [*times[:1], time]
        for name, counter in counts.items():
            counter[str(line.get(name))] += 1
        errors += line["status"] >= 400
        empty += line.get("hits") == 0
        questions[question_of(line)] += 1
        stages["request"].append(line["seconds"] * 1e3)
        if "first_token_ms" in line:
            stages["first_token"].append(line["first_token_ms"])
        for stage, milliseconds in line.get("timings_ms", {}).items():
            if stage != "first_token":  # here that is counted from the prompt
                stages[stage].append(milliseconds)
    stages |= {"total": stages.pop("total")} if "total" in stages else {}
    return {
        "queries": questions.total(),
        "questions": len(questions),
        "errors": errors,
        "empty": empty,
        "first": times[0].isoformat() if times else None,
        "last": times[-1].isoformat() if times else None,
        "by": {name: dict(counter.most_common()) for name, counter in counts.items()},
        "stages_ms": {stage: _percentiles(values) for stage, values in stages.items()},
    }


def question_of(line: Line) -> str:
    """What tells a question from another one: its text, or the hash of it."""
    if "question" in line:
        return normal(line["question"])
    return str(line.get("question_hash"))


def _percentiles(values: array[float]) -> dict[str, float]:
    found = np.percentile(np.asarray(values), (50, 95, 99))
    return {"count": len(values)} | {
        name: round(float(value), 3)
        for name, value in zip(("p50", "p95", "p99"), found, strict=True)
    }
