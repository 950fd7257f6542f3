import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster import schema


@given(st.lists(st.text(), min_size=1, max_size=4), st.lists(st.text(), min_size=1, max_size=4))
def test_ids_differ_exactly_where_the_parts_do(left: list[str], right: list[str]) -> None:
    assert (schema.make_id(*left) == schema.make_id(*right)) == (left == right)


@given(st.text(), st.integers(1, 64))
def test_a_shard_is_within_range_and_stable(doc_id: str, shards: int) -> None:
    shard = schema.shard_of(doc_id, shards)
    assert 0 <= shard < shards
    assert shard == schema.shard_of(doc_id, shards)


def test_conform_orders_casts_and_names_what_is_wrong() -> None:
    wanted = pa.schema([("a", pa.int32()), ("b", pa.string())])
    table = pa.table({"b": ["x"], "extra": [1], "a": pa.array([1], pa.int64())})
    assert schema.conform(table, wanted) == pa.table({"a": [1], "b": ["x"]}, wanted)
    with pytest.raises(ValueError, match="'a' is missing"):
        schema.conform(pa.table({"b": ["x"]}), wanted)
    with pytest.raises(ValueError, match="'a' is not int32"):
        schema.conform(pa.table({"a": [1 << 40], "b": ["x"]}), wanted)


def test_rows_to_table_refuses_unknown_columns() -> None:
    assert schema.rows_to_table([{"query_id": "1"}], schema.QUERY).to_pylist() == [
        {"query_id": "1", "text": None}
    ]
    with pytest.raises(ValueError, match="qid"):
        schema.rows_to_table([{"qid": "1"}], schema.QUERY)


def test_indexed_text_leaves_out_what_is_empty() -> None:
    assert schema.indexed_text("Title", "", "body") == "Title\nbody"
    assert schema.indexed_text("", "| a |", "| 1 |") == "| a |\n| 1 |"
