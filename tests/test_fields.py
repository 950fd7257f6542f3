from __future__ import annotations

import json
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from rag_cluster.fields import count_unfit, read_fields


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", 2023, 2023),
        ("int", "2023", 2023),
        ("int", 2023.0, 2023),
        ("int", 2023.5, None),
        ("int", True, None),
        ("int", "about 2023", None),
        ("int", 2**70, None),
        ("float", "1.5", 1.5),
        ("float", 2, 2.0),
        ("float", False, None),
        ("bool", True, True),
        ("bool", "false", False),
        ("bool", 1, True),
        ("bool", "maybe", None),
        ("date", "2023-05-01", date(2023, 5, 1)),
        ("date", "2023-05-01T10:00:00+02:00", date(2023, 5, 1)),
        ("date", "May 2023", None),
        ("date", 20230501, None),
        ("keyword", "3M", "3M"),
        ("keyword", 42, "42"),
        ("keyword", True, "true"),
        ("text", ["a", "b"], None),
        ("keyword", None, None),
    ],
)
def test_a_value_takes_the_fields_type_or_is_null(kind: str, value: Any, expected: Any) -> None:
    assert read_fields(json.dumps({"field": value}), {"field": kind}) == {"field": expected}


def test_what_is_absent_is_null() -> None:
    for metadata in (None, "", "{}", "[1]"):
        assert read_fields(metadata, {"year": "int"}) == {"year": None}


def test_unfit_values_are_counted() -> None:
    metadata = [{"year": "x", "name": "a"}, {"year": 2020}, {"year": None}, {"year": "y"}]
    documents = pa.table({"metadata": [json.dumps(item) for item in metadata]})
    assert count_unfit(documents, {"year": "int", "name": "keyword"}) == {"year": 2}
    assert count_unfit(documents, {}) == {}
