from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster import config
from rag_cluster.config import PACKAGED_ENCODER
from rag_cluster.enrich import Enricher
from rag_cluster.enrich.heading import heading_context
from rag_cluster.models.tokenizer import load_tokenizer
from rag_cluster.schema import chunk_schema, rows_to_table

WORDS = load_tokenizer("fake:8")


@pytest.mark.parametrize(
    ("title", "path", "most", "context"),
    [
        ("Report", "Results > Sales", 56, "Report > Results > Sales"),
        ("Report", "Report > Sales", 56, "Report > Sales"),
        ("Annual  report", "annual report", 56, "annual report"),
        ("Report", "", 56, "Report"),
        ("", "Results", 56, "Results"),
        ("", "", 56, ""),
        # 9 tokens; without B, in the middle, 7; without C, now in the middle, 5.
        ("T", "A > B > C > D", 9, "T > A > B > C > D"),
        ("T", "A > B > C > D", 7, "T > D"),
        ("T", "A > B > C > D", 5, "T > D"),
        ("T", "A > B > C > D", 3, "T > D"),
        # 4 tokens of room beside the sign: the last heading may take half of it.
        ("one two three four", "five six seven", 5, "one two > five six"),
        ("one", "two three four five", 5, "one > two three four"),
        ("one two three four five", "six", 5, "one two three > six"),
        ("one two three", "", 2, "one two"),
    ],
)
def test_title_and_path_within_the_bound(title: str, path: str, most: int, context: str) -> None:
    assert heading_context("", title, path, most, WORDS) == context


LINES = st.text(st.sampled_from("ab 1é日>.-"), max_size=80)


@given(LINES, st.lists(LINES, max_size=5), st.integers(8, 20))
def test_never_more_than_the_bound(title: str, path: list[str], most: int) -> None:
    tokenizer = load_tokenizer(PACKAGED_ENCODER)
    context = heading_context("", title, " > ".join(path), most, tokenizer)
    assert tokenizer.count([context])[0] <= most
    assert context == context.strip()


def test_the_stage_fills_the_context() -> None:
    rows = [
        {"chunk_id": "a", "title": "Report", "section_path": "Sales", "text": "x"},
        {"chunk_id": "b", "title": None, "section_path": "", "text": "y"},
    ]
    schema = chunk_schema({"year": "int"})
    tree = {"embed": {"model": "fake:8"}, "metadata": {"fields": {"year": "int"}}}
    for kind, contexts in (("heading", ["Report > Sales", ""]), ("none", ["", ""])):
        stage = Enricher(config.build(tree | {"enrich": {"kind": kind}}))
        table = stage(rows_to_table(rows, schema))
        assert table.schema == stage.gives == stage.takes == schema
        assert table["context"].to_pylist() == contexts
        assert table["text"].to_pylist() == ["x", "y"]
    assert stage(schema.empty_table()).num_rows == 0
