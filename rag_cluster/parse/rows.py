"""DOCUMENT rows as dictionaries: what all kinds of files have in common."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from typing import Any

from rag_cluster.parse.clean import scrub
from rag_cluster.parse.titles import title_from_name
from rag_cluster.schema import content_hash, document_id

Row = dict[str, Any]


def make_row(uri: str, data: bytes, **columns: Any) -> Row:
    """A row of a file's or record's bytes; the columns given stand in place of the defaults."""
    row: Row = {
        "doc_id": document_id(uri),
        "uri": uri,
        "title": title_from_name(uri),
        "text": "",
        "pages": [],
        "sections": [],
        "tables": [],
        "metadata": "{}",
        "content_hash": content_hash(data),
        "detail": None,
        **columns,
    }
    if row["detail"] is not None:
        row["detail"] = scrub(row["detail"])[:1000]
    return row


def failed_row(uri: str, reason: str, detail: str | None, data: bytes = b"") -> Row:
    """The row of a file or record that could not be parsed."""
    return make_row(uri, data, status="failed", error=reason, detail=detail)


def dump_metadata(fields: dict[str, Any]) -> str:
    """The metadata as a JSON object: empty values left out, dates in ISO 8601, keys in order.

    A number that JSON does not have (NaN, infinity) is null.
    """
    kept = {
        scrub(str(name)): _finite(value)
        for name, value in fields.items()
        if value not in (None, "", [], {})
    }
    return scrub(json.dumps(kept, ensure_ascii=False, sort_keys=True, default=_plain))


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: _finite(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
        case _:
            return value


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)
