"""A search as Elasticsearch's query language, filters included.

A translated filter matches exactly the chunks that `Filter.mask` lets through: a comparison never
matches a document without the field, `ne` included, and `not` is a complement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_cluster.errors import FilterError
from rag_cluster.index.elastic_mapping import SPARSE_FIELD, field_path, indexed_value
from rag_cluster.index.filters import Combination, Comparison, Filter, Negation, Node
from rag_cluster.models.sparse import SparseVector

Query = dict[str, Any]

# The server parses queries up to 30 levels deep (indices.query.bool.max_nested_depth); the search
# itself is one of them.
MAX_DEPTH = 28

# Clauses of a query that every server takes.
MOST_TERMS = 1000

# Best score first; ties in the order of the collection's rows, which is (doc_id, ordinal).
ORDER = [{"_score": "desc"}, {"doc_id": "asc"}, {"ordinal": "asc"}]


def search_query(
    text: str | Mapping[str, float],
    wanted: Filter | None,
    exclude_roles: Sequence[str],
    fields: Mapping[str, str],
) -> Query:
    """BM25 by a text, or by texts with their weights, over the chunks that the filter lets through.

    Raises FilterError.
    """
    if isinstance(text, str):
        query: Query = {"must": [_match(text)]}
    else:
        query = {
            "should": [_match(part, boost=weight) for part, weight in text.items()],
            "minimum_should_match": 1,
        }
    return _within(query, wanted, exclude_roles, fields)


def sparse_query(
    vector: SparseVector,
    wanted: Filter | None,
    exclude_roles: Sequence[str],
    fields: Mapping[str, str],
) -> Query:
    """The inner product with a sparse vector, over the chunks that the filter lets through.

    Of more than MOST_TERMS terms the heaviest are asked for. Raises FilterError.
    """
    heavy = sorted(zip(vector.weights.tolist(), vector.terms.tolist(), strict=True), reverse=True)
    terms = [
        {"rank_feature": {"field": f"{SPARSE_FIELD}.{term}", "linear": {}, "boost": weight}}
        for weight, term in heavy[:MOST_TERMS]
    ]
    query: Query = {"should": terms, "minimum_should_match": 1}
    return _within(query, wanted, exclude_roles, fields)


def _within(
    query: Query, wanted: Filter | None, exclude_roles: Sequence[str], fields: Mapping[str, str]
) -> Query:
    if wanted is not None:
        query["filter"] = [to_query(wanted, fields)]
    if exclude_roles:
        query["must_not"] = [{"terms": {"role": list(exclude_roles)}}]
    return {"bool": query}


def _match(text: str, **more: float) -> Query:
    # A lone surrogate cannot be sent; no indexed text holds one.
    clean = text.encode("utf-8", "replace").decode()
    return {"match": {"text": {"query": clean, **more}}}


def to_query(wanted: Filter, fields: Mapping[str, str]) -> Query:
    """The filter as a query; `fields` are the declared fields. Raises FilterError.

    Negations of negations fall away and nested combinations of one kind are one: servers limit how
    deep a query may be.
    """
    query = _translate(wanted.root, fields)
    if _depth(query) > MAX_DEPTH:
        raise FilterError(
            f"the filter is too deep for Elasticsearch: it makes a query of {_depth(query)} "
            f"levels, and {MAX_DEPTH} are possible"
        )
    return query


def _translate(node: Node, fields: Mapping[str, str]) -> Query:
    match node:
        case Negation(Negation(part)):
            return _translate(part, fields)
        case Negation(part):
            return {"bool": {"must_not": [_translate(part, fields)]}}
        case Combination(operator, parts):
            return _combine(operator, [_translate(part, fields) for part in parts])
        case Comparison():
            return _compare(node, fields)


def _combine(operator: str, queries: list[Query]) -> Query:
    clause = "filter" if operator == "and" else "should"
    merged: list[Query] = []
    for query in queries:
        inner = query.get("bool", {})
        alike = inner.keys() == {clause} or (clause == "should" and clause in inner)
        merged.extend(inner[clause] if alike else [query])
    if operator == "and":
        return {"bool": {"filter": merged}}
    return {"bool": {"should": merged, "minimum_should_match": 1}}


def _compare(node: Comparison, fields: Mapping[str, str]) -> Query:
    path = field_path(node.field, fields)
    try:
        values = [indexed_value(value) for value in node.values]
    except UnicodeEncodeError as error:
        raise FilterError(f"field {node.field!r}: the value is not valid text: {error}") from None
    match node.operator:
        case "in":
            return {"terms": {path: values}}
        case "eq":
            return {"term": {path: {"value": values[0]}}}
        case "ne":
            return {
                "bool": {
                    "filter": [{"exists": {"field": path}}],
                    "must_not": [{"term": {path: {"value": values[0]}}}],
                }
            }
        case operator:
            return {"range": {path: {operator: values[0]}}}


def _depth(query: Query) -> int:
    clauses = query.get("bool", {})
    below = [part for parts in clauses.values() if isinstance(parts, list) for part in parts]
    return 1 + max(map(_depth, below), default=0)
