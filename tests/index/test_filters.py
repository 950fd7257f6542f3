import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.errors import FilterError
from rag_cluster.index.filters import MAX_DEPTH, Combination, Comparison, Negation, parse_filter
from rag_cluster.schema import FIELD_TYPES

FIELDS = {
    "company": "keyword",
    "year": "int",
    "price": "float",
    "audited": "bool",
    "filed": "date",
    "note": "text",
}
DAY = datetime.date(2024, 1, 31)
LATER = datetime.date(2025, 2, 1)
ROWS: list[dict[str, Any]] = [
    {"company": "3M", "year": 2018, "price": 1.5, "audited": True, "filed": DAY, "kind": "table"},
    {"company": "AMD", "year": 2020, "price": 2.0, "audited": False, "filed": LATER},
    {"company": "3M", "year": 2022, "price": -1.0, "audited": None, "filed": None, "note": "new"},
    {"company": None, "year": None, "price": None, "audited": True, "filed": DAY},
]  # fmt: skip
SCHEMA = pa.schema(
    [(name, FIELD_TYPES[kind]) for name, kind in FIELDS.items()] + [("kind", pa.string())]
)


def table() -> pa.Table:
    whole = pa.Table.from_pylist(ROWS, schema=SCHEMA)
    return pa.concat_tables([whole.slice(0, 2), whole.slice(2)])  # more than one chunk


def rows(tree: dict[str, Any]) -> list[int]:
    parsed = parse_filter(tree, FIELDS)
    assert parsed is not None
    mask = parsed.mask(table())
    assert mask.dtype == np.bool_
    return np.flatnonzero(mask).tolist()


@pytest.mark.parametrize(
    ("tree", "wanted"),
    [
        ({"year": 2020}, [1]),
        ({"year": 2020.0}, [1]),
        ({"company": "3M"}, [0, 2]),
        ({"company": ["3M", "AMD"]}, [0, 1, 2]),
        ({"company": {"in": ["AMD"]}}, [1]),
        ({"company": []}, []),
        ({"year": {"gte": 2018, "lt": 2022}}, [0, 1]),
        ({"year": {"gt": 2018, "lte": 2022}}, [1, 2]),
        ({"year": {"$ne": 2020}}, [0, 2]),
        ({"price": {"lt": 2}}, [0, 2]),
        ({"audited": True}, [0, 3]),
        ({"audited": {"ne": True}}, [1]),
        ({"filed": "2024-01-31"}, [0, 3]),
        ({"filed": {"gte": "2024-02-01"}}, [1]),
        ({"filed": [DAY]}, [0, 3]),
        ({"note": "new"}, [2]),
        ({"kind": "table"}, [0]),
        ({"company": "3M", "year": 2018}, [0]),
        ({"or": [{"year": 2018}, {"company": "AMD"}]}, [0, 1]),
        ({"$and": [{"company": "3M"}, {"$not": {"year": 2018}}]}, [2]),
        ({"not": {"year": 2020}}, [0, 2, 3]),  # the complement: null rows are in it
        ({"not": {"not": {"year": 2020}}}, [1]),
        ({"not": {"company": "3M", "year": 2018}}, [1, 2, 3]),
    ],
    ids=str,
)
def test_rows_that_match(tree: dict[str, Any], wanted: list[int]) -> None:
    assert rows(tree) == wanted


@pytest.mark.parametrize("tree", [None, {}])
def test_no_filter(tree: dict[str, Any] | None) -> None:
    assert parse_filter(tree, FIELDS) is None


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ([1], "JSON object"),
        ({"yaer": 1}, "'yaer'.*did you mean 'year'"),
        ({"zzz": 1}, "known are doc_id, .*year"),
        ({"year": "2020"}, r"'year' is of type int: '2020' \(str\)"),
        ({"year": True}, "'year' is of type int: True"),
        ({"year": 2020.5}, "'year' is of type int"),
        ({"year": 2**63}, "'year' is of type int"),
        ({"year": None}, r"'year' is of type int: None \(NoneType\)"),
        ({"year": [2020, "x"]}, "'year' is of type int: 'x'"),
        ({"year": {"gte": [1]}}, "'year' is of type int"),
        ({"price": float("nan")}, "'price' is of type float"),
        ({"price": "1"}, "'price' is of type float"),
        ({"company": 3}, "'company' is of type keyword: 3 .int. is not text"),
        ({"company": "\ud800"}, "'company'"),
        ({"audited": 1}, "'audited' is of type bool"),
        ({"audited": {"gt": True}}, "no order"),
        ({"filed": "31.1.2024"}, "a date such as 2024-12-31"),
        ({"filed": datetime.datetime(2024, 1, 1)}, "a date such as"),
        ({"year": {"ge": 1}}, "unknown operator 'ge'.*did you mean"),
        ({"year": {"in": 3}}, "field 'year': \"in\" takes a list"),
        ({"year": {}}, "'year' has an empty object"),
        ({"and": []}, '"and" takes a list'),
        ({"or": {"year": 1}}, '"or" takes a list'),
        ({"or": [1]}, "JSON object"),
        ({"not": []}, "JSON object"),
        ({"not": {}}, "empty object"),
        ({"company": ["x"] * 10_001}, "10001 values"),
        ({1: 2}, "names of fields"),
        ({"year": {1: 2}}, "unknown operator 1"),
    ],
)
def test_mistakes_are_named(tree: Any, message: str) -> None:
    with pytest.raises(FilterError, match=message):
        rows(tree)


def test_depth_is_limited() -> None:
    tree: dict[str, Any] = {"year": 2020}
    for _ in range(MAX_DEPTH - 1):
        tree = {"not": tree}
    rows(tree)
    with pytest.raises(FilterError, match="nested more than 32"):
        rows({"not": tree})


def test_a_collection_without_the_column() -> None:
    parsed = parse_filter({"year": 2020}, FIELDS)
    assert parsed is not None
    with pytest.raises(FilterError, match="no column 'year'"):
        parsed.mask(pa.table({"kind": ["table"]}))


def test_the_tree_can_be_read_by_another_engine() -> None:
    parsed = parse_filter({"year": {"gte": 2019, "lt": 2022}, "not": {"company": "3M"}}, FIELDS)
    assert parsed is not None
    years = (Comparison("year", "gte", (2019,)), Comparison("year", "lt", (2022,)))
    assert parsed.root == Combination(
        "and",
        (Combination("and", years), Negation(Comparison("company", "eq", ("3M",)))),
    )


leaves = st.sampled_from(
    [{"year": 2020}, {"company": ["3M"]}, {"price": {"gt": 0}}, {"audited": {"ne": False}}]
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda part: {"not": part}, inner),
        st.builds(lambda parts: {"and": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"or": parts}, st.lists(inner, min_size=1, max_size=3)),
    ),
    max_leaves=8,
)


@given(trees, trees)
def test_the_laws_of_de_morgan(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert rows({"not": {"and": [left, right]}}) == rows({"or": [{"not": left}, {"not": right}]})
    assert sorted(rows(left) + rows({"not": left})) == list(range(len(ROWS)))
