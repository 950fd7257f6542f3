import numpy as np
import pyarrow as pa
import pytest

from rag_cluster import config
from rag_cluster.embed import Embedder, SparseEmbedder
from rag_cluster.errors import IngestError
from rag_cluster.models.sparse import FakeSparseEncoder
from rag_cluster.schema import CHUNK, rows_to_table
from rag_cluster.work import part_schema

SPLADE = ["embed.model=fake:8", "sparse.model=fake:1000"]
SETTINGS = config.load(None, SPLADE)


def embedded(*rows: dict, **embedder) -> pa.Table:
    base = {"uri": "a.txt", "searchable": True, "context": "", "header": "", "start": 0}
    made = [base | {"chunk_id": f"c{i}", "end": 9} | row for i, row in enumerate(rows)]
    return Embedder(SETTINGS, **embedder)(rows_to_table(made, CHUNK))


class Counting(FakeSparseEncoder):
    def __init__(self) -> None:
        super().__init__(1000)
        self.seen: list[str] = []

    def encode(self, texts, kind="passage"):
        self.seen += texts
        return super().encode(texts, kind)


def test_context_header_and_text_are_weighed() -> None:
    table = SparseEmbedder(SETTINGS)(embedded({"context": "a", "header": "b", "text": "c c"}))
    assert table.schema.equals(part_schema({}, 8, sparse=True))
    ((terms, weights),) = FakeSparseEncoder(1000).encode(["a\nb\nc c"])
    assert table["terms"].to_pylist() == [terms.tolist()]
    np.testing.assert_array_equal(table["weights"].to_pylist()[0], weights)


def test_rows_without_a_vector_of_their_own_have_none() -> None:
    rows = [{"text": "one"}, {"text": "two"}, {"text": "three", "searchable": False}]
    table = embedded(*rows, claim=lambda words, _: np.arange(len(words)) > 0)
    assert table["reused"].to_pylist() == [True, False, False]
    encoder = Counting()
    made = SparseEmbedder(SETTINGS, encoder=encoder)(table)
    assert encoder.seen == ["two"]
    assert [value.is_valid for value in made["terms"]] == [False, True, False]
    assert [value.is_valid for value in made["weights"]] == [False, True, False]


def test_what_either_encoder_cuts_off_is_counted() -> None:
    encoder = FakeSparseEncoder(1000, max_tokens=6)  # reads four words
    table = embedded({"text": "a b c d e f"}, {"text": "a b"})
    assert table["truncated"].to_pylist() == [0, 0]
    made = SparseEmbedder(SETTINGS, encoder=encoder)(table)
    assert made["truncated"].to_pylist() == [2, 0]
    longer = table.set_column(
        table.schema.get_field_index("truncated"), "truncated", pa.array([3, 1], pa.int32())
    )
    assert SparseEmbedder(SETTINGS, encoder=encoder)(longer)["truncated"].to_pylist() == [3, 1]
    strict = config.load(None, [*SPLADE, "embed.truncation=fail"])
    with pytest.raises(IngestError, match=r"chunk c0 of a\.txt .* has 2 tokens beyond"):
        SparseEmbedder(strict, encoder=encoder)(table)


def test_equal_texts_are_encoded_once() -> None:
    encoder = Counting()
    made = SparseEmbedder(SETTINGS, encoder=encoder)(embedded({"text": "x"}, {"text": "x"}))
    assert encoder.seen == ["x"]
    assert made["terms"][0] == made["terms"][1]


def test_an_empty_table_keeps_its_columns() -> None:
    made = SparseEmbedder(SETTINGS)(embedded())
    assert made.schema.equals(part_schema({}, 8, sparse=True))
