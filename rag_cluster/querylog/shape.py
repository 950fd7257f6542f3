"""What a line must hold, as far as it is read here: the rest relies on these types."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

# Of these times each has its like in every time zone.
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)

# Far more than a query takes, and sums of it are finite.
_Duration = Annotated[float, Field(ge=-1e12, le=1e12, allow_inf_nan=False)]
# It becomes a cell of a table.
_Id = Annotated[str, Field(pattern=r"^\S+$")]


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True)


class _Citation(_Shape):
    doc_id: _Id
    uri: str
    page: PositiveInt | None


class _Chunk(_Shape):
    doc_id: _Id
    uri: str
    pages: Annotated[list[PositiveInt], Field(min_length=2, max_length=2)] | None


class _Options(_Shape):
    filter: dict[str, Any] | None = None


class _Line(_Shape):
    """What has a default here may be absent; what else a line holds may be anything."""

    id: str
    time: str
    route: str
    status: Annotated[int, Field(ge=100, le=599)]
    seconds: _Duration
    key: str | None = None
    code: str | None = None
    question: str = ""
    question_hash: str = ""
    options: _Options = _Options()
    timings_ms: dict[str, _Duration] = {}
    first_token_ms: _Duration = 0.0
    hits: int | None = None
    chunks: list[_Chunk] = []
    cited: list[_Citation] = []
    guardrails: dict[str, dict[str, Any]] = {}


def parsed(text: str) -> tuple[datetime, dict[str, Any]]:
    """A line and its time. Raises ValueError or RecursionError for what is none."""
    line: dict[str, Any] = json.loads(text)
    _Line.model_validate(line)
    # Can it be written again? Python reads NaN and half of a surrogate pair, and JSON has neither.
    json.dumps(line, ensure_ascii=False, allow_nan=False).encode()
    time = datetime.fromisoformat(line["time"])
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    if not _FIRST <= time < _LAST:
        raise ValueError("the service did not run at that time")
    return time, line
