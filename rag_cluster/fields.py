"""Declared metadata fields: from a document's JSON to typed columns."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import pyarrow as pa

Value = str | int | float | bool | date | None


def read_fields(metadata: str | None, fields: Mapping[str, str]) -> dict[str, Value]:
    """The declared fields of a document's metadata; null where absent or of another type."""
    known = _parse(metadata)
    return {name: _cast(known.get(name), kind) for name, kind in fields.items()}


def find_unfit(metadata: str | None, fields: Mapping[str, str]) -> dict[str, Any]:
    """The values of declared fields that are there but not of the field's type, by field."""
    known = _parse(metadata)
    return {
        name: known[name]
        for name, kind in fields.items()
        if known.get(name) is not None and _cast(known[name], kind) is None
    }


def count_unfit(documents: pa.Table, fields: Mapping[str, str]) -> dict[str, int]:
    """For each declared field, in how many documents its value is there but not of its type."""
    unfit: Counter[str] = Counter()
    for metadata in documents.column("metadata").to_pylist() if fields else []:
        unfit.update(find_unfit(metadata, fields).keys())
    return dict(unfit)


def _parse(metadata: str | None) -> dict[str, Any]:
    known = json.loads(metadata) if metadata else {}
    return known if isinstance(known, dict) else {}


def _cast(value: Any, kind: str) -> Value:
    """The value in the field's type, where nothing is lost by it; else None."""
    if value is None or isinstance(value, dict | list):
        return None
    try:
        match kind:
            case "int":
                return _integer(value)
            case "float":
                return _finite(value)
            case "bool":
                return _boolean(value)
            case "date":
                return _date(value)
            case _:
                return value if isinstance(value, str) else json.dumps(value)
    except (ValueError, OverflowError):
        return None


def _integer(value: Any) -> int | None:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        return None
    number = int(value)
    return number if -(2**63) <= number < 2**63 else None


def _finite(value: Any) -> float | None:
    number = math.nan if isinstance(value, bool) else float(value)
    return number if math.isfinite(number) else None


def _boolean(value: Any) -> bool | None:
    known = {"true": True, "false": False, "1": True, "0": False}
    return known.get(str(value).strip().lower())


def _date(value: Any) -> date | None:
    """A day of ISO 8601: 2023-05-01, with or without a time behind it."""
    return datetime.fromisoformat(value.strip()).date() if isinstance(value, str) else None
