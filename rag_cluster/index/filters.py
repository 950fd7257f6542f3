"""The metadata filter: one small language for every index.

    {"year": 2020}                                equal
    {"year": [2019, 2020]}, {"year": {"in": …}}   any of
    {"year": {"gte": 2019, "lt": 2022}}           eq, ne, gt, gte, lt, lte, in; several are and-ed
    {"company": "3M", "year": 2018}               several fields are and-ed
    {"and": […]}, {"or": […]}, {"not": {…}}       combinations

An operator may be written with a leading "$". Dates are ISO strings. A comparison never matches a
row whose value is null, `ne` included; `not` is the complement of what stands in it, so a row that
is null does match {"not": {"year": 2020}}.

`parse_filter` checks names and types and gives a tree of three kinds of node, which the FAISS and
bm25s shards read as a mask of rows, and which another engine may translate to its own queries.
"""

from __future__ import annotations

import datetime
import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_cluster.errors import FilterError

Mask = NDArray[np.bool_]
Value = str | int | float | bool | datetime.date
Operator = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in"]

OPERATORS: tuple[Operator, ...] = ("eq", "ne", "gt", "gte", "lt", "lte", "in")
COMBINATIONS = ("and", "or", "not")

# Columns of every chunk that can be filtered on beside the declared fields.
BUILT_IN: dict[str, str] = dict.fromkeys(
    ("doc_id", "uri", "title", "kind", "role", "section_path"), "keyword"
)

MAX_DEPTH = 32
MAX_VALUES = 10_000

_COMPARE = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "gt": pc.greater,
    "gte": pc.greater_equal,
    "lt": pc.less,
    "lte": pc.less_equal,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One field against values of its own type: all but `in` have exactly one value."""

    field: str
    operator: Operator
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Combination:
    """`and` and `or` of one or more parts."""

    operator: Literal["and", "or"]
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """The complement of a part."""

    part: Node


Node = Comparison | Combination | Negation


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter whose names and types have been checked."""

    root: Node

    def mask(self, table: pa.Table) -> Mask:
        """Which rows of the table match: bool [rows].

        Raises FilterError when the table has no such column, or one of another type.
        """
        return _mask(self.root, table)


def parse_filter(tree: Mapping[str, Any] | None, fields: Mapping[str, str]) -> Filter | None:
    """The filter of a JSON object; None for None and for {}.

    `fields` are the declared metadata fields (name -> type, see schema.FIELD_TYPES). Raises
    FilterError, which names the field, the value and what would be right.
    """
    if tree is None:
        return None
    _require_object(tree)
    if not tree:
        return None
    return Filter(_parse_object(tree, {**BUILT_IN, **fields}, depth=1))


def _require_object(tree: object) -> None:
    if not isinstance(tree, Mapping):
        raise FilterError(f'a filter is a JSON object such as {{"year": 2020}}, not {_show(tree)}')


def _parse_object(tree: Mapping[str, Any], fields: Mapping[str, str], depth: int) -> Node:
    _require_object(tree)
    if depth > MAX_DEPTH:
        raise FilterError(f"the filter is nested more than {MAX_DEPTH} levels deep")
    if not tree:
        raise FilterError("an empty object {} stands inside the filter: leave it out")
    parts = [_parse_entry(name, value, fields, depth) for name, value in tree.items()]
    return parts[0] if len(parts) == 1 else Combination("and", tuple(parts))


def _parse_entry(name: str, value: Any, fields: Mapping[str, str], depth: int) -> Node:
    if not isinstance(name, str):
        raise FilterError(f"a filter's keys are names of fields, not {_show(name)}")
    key = _without_dollar(name)
    if key == "not":
        return Negation(_parse_object(value, fields, depth + 1))
    if key in ("and", "or"):
        if not isinstance(value, list | tuple) or not value:
            raise FilterError(f'"{key}" takes a list of one or more objects, not {_show(value)}')
        parts = tuple(_parse_object(part, fields, depth + 1) for part in value)
        return Combination("and" if key == "and" else "or", parts)
    if name not in fields:
        raise FilterError(_unknown_field(name, fields))
    return _parse_field(name, value, fields[name])


def _parse_field(field: str, value: Any, kind: str) -> Node:
    if isinstance(value, list | tuple):
        return _any_of(field, value, kind)
    if not isinstance(value, Mapping):
        return Comparison(field, "eq", (_typed(field, value, kind),))
    if not value:
        raise FilterError(f"field {field!r} has an empty object: give it an operator and a value")
    parts = [_parse_operator(field, name, operand, kind) for name, operand in value.items()]
    return parts[0] if len(parts) == 1 else Combination("and", tuple(parts))


def _parse_operator(field: str, name: str, operand: Any, kind: str) -> Node:
    operator = _without_dollar(str(name))
    if operator not in OPERATORS:
        near = difflib.get_close_matches(operator, OPERATORS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise FilterError(
            f"field {field!r}: unknown operator {name!r}; {hint}known are {', '.join(OPERATORS)}"
        )
    if operator == "in":
        if not isinstance(operand, list | tuple):
            raise FilterError(f'field {field!r}: "in" takes a list, not {_show(operand)}')
        return _any_of(field, operand, kind)
    if kind == "bool" and operator not in ("eq", "ne"):
        raise FilterError(f"field {field!r} is bool and has no order: {name!r} does not apply")
    return Comparison(field, operator, (_typed(field, operand, kind),))


def _any_of(field: str, values: list[Any] | tuple[Any, ...], kind: str) -> Comparison:
    if len(values) > MAX_VALUES:
        raise FilterError(f"field {field!r}: {len(values)} values are more than {MAX_VALUES}")
    return Comparison(field, "in", tuple(_typed(field, value, kind) for value in values))


def _typed(field: str, value: Any, kind: str) -> Value:
    """The value as the field's own type, or FilterError."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in ("keyword", "text") and isinstance(value, str):
        return value
    if kind == "bool" and isinstance(value, bool):
        return value
    is_number = is_number and abs(value) < sys.float_info.max
    if kind == "float" and is_number:
        return float(value)
    if kind == "int" and is_number and value == value // 1 and abs(value) < 2**63:
        return int(value)
    if kind == "date" and isinstance(value, datetime.date | str):
        date = _date(value)
        if date is not None:
            return date
    expected = {"keyword": "text", "date": "a date such as 2024-12-31"}.get(kind, kind)
    raise FilterError(f"field {field!r} is of type {kind}: {_show(value)} is not {expected}")


def _date(value: datetime.date | str) -> datetime.date | None:
    if isinstance(value, datetime.datetime):
        return None
    if isinstance(value, datetime.date):
        return value
    try:
        return datetime.date.fromisoformat(value)
    except ValueError:
        return None


def _without_dollar(name: str) -> str:
    return name[1:] if name[:1] == "$" and name[1:] in (*OPERATORS, *COMBINATIONS) else name


def _unknown_field(name: str, fields: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(str(name), fields, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return (
        f"the filter names {name!r}, which is not a declared field; {hint}"
        f"known are {', '.join(fields)} (declare fields under metadata.fields and ingest again)"
    )


def _show(value: object) -> str:
    text = repr(value)
    return f"{text if len(text) <= 80 else text[:77] + '...'} ({type(value).__name__})"


def _mask(node: Node, table: pa.Table) -> Mask:
    match node:
        case Negation(part):
            return ~_mask(part, table)
        case Combination(operator, parts):
            masks = [_mask(part, table) for part in parts]
            combine = np.logical_and if operator == "and" else np.logical_or
            return cast("Mask", combine.reduce(masks))
        case Comparison():
            return _compare(node, table)


def _compare(node: Comparison, table: pa.Table) -> Mask:
    if node.field not in table.column_names:
        raise FilterError(
            f"the collection has no column {node.field!r}: it was made before the field was "
            f"declared; ingest again"
        )
    column = table.column(node.field)
    try:
        if node.operator == "in":
            values = pa.array(node.values, type=column.type)
            matches = pc.is_in(column, value_set=values)
        else:
            value = pa.scalar(node.values[0], type=column.type)
            matches = _COMPARE[node.operator](column, value)
    except (pa.ArrowException, UnicodeEncodeError) as error:
        raise FilterError(
            f"field {node.field!r} is {column.type} in the collection, which cannot be compared "
            f"with {_show(node.values[:3])}: {error}"
        ) from None
    # `is_in` answers false for null by itself; a comparison answers null.
    filled = pc.fill_null(matches, fill_value=False)
    return cast("Mask", np.asarray(filled.to_numpy(), dtype=np.bool_))
