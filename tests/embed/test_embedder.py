import numpy as np
import pyarrow as pa
import pytest

from rag_cluster import config
from rag_cluster.embed import Embedder
from rag_cluster.errors import IngestError, ModelError
from rag_cluster.models.fakes import FakeEncoder
from rag_cluster.schema import CHUNK, rows_to_table, vector_type


def chunks(*rows):
    base = {"uri": "file:a.txt", "searchable": True, "context": "", "header": "", "start": 0}
    made = [
        base | {"chunk_id": f"c{i}", "end": len(row["text"])} | row for i, row in enumerate(rows)
    ]
    return rows_to_table(made, CHUNK)


def settings(*more):
    return config.load(None, ["embed.model=fake:32", *more])


class Counting(FakeEncoder):
    def __init__(self):
        super().__init__(32)
        self.seen = []

    def encode(self, texts, kind="passage"):
        self.seen.extend(texts)
        return super().encode(texts, kind)


def test_context_header_and_text_are_encoded_together():
    table = chunks({"context": "Pump", "header": "quantity", "text": "pressure"})
    made = Embedder(settings())(table)
    vector = np.array(made.column("vector")[0].as_py(), dtype=np.float32)
    np.testing.assert_array_equal(vector, FakeEncoder(32).encode(["Pump\nquantity\npressure"])[0])
    assert made.column_names == [*CHUNK.names, "vector", "truncated", "text_hash", "reused"]
    assert made.schema.field("vector").type == vector_type(32)
    assert made.schema.field("truncated").type == pa.int32()


def test_a_parent_that_is_not_searchable_has_no_vector():
    table = chunks({"text": "whole", "searchable": False}, {"text": "part"})
    made = Embedder(settings())(table)
    assert [value.is_valid for value in made.column("vector")] == [False, True]


def test_equal_texts_are_encoded_once():
    encoder = Counting()
    table = chunks({"text": "same"}, {"text": "other"}, {"text": "same"})
    made = Embedder(settings(), encoder=encoder)(table)
    assert encoder.seen == ["same", "other"]
    vectors = made.column("vector").to_pylist()
    assert vectors[0] == vectors[2] != vectors[1]


def test_tokens_beyond_the_window_are_counted():
    # the fake's window of 10 holds 8 words beside its 2 special tokens
    made = Embedder(settings("embed.max_tokens=10"))(
        chunks({"text": "a b c d e f g h"}, {"context": "x", "text": "a b c d e f g h i j"})
    )
    assert made.column("truncated").to_pylist() == [0, 3]


def test_truncation_can_fail_the_job():
    embedder = Embedder(settings("embed.max_tokens=10", "embed.truncation=fail"))
    with pytest.raises(IngestError, match=r"chunk c1 of file:a.txt \[0:21\] has 3 tokens beyond"):
        embedder(chunks({"text": "short"}, {"text": "a b c d e f g h i j k"}))


def test_a_vector_that_is_not_finite_names_its_chunk():
    class Broken(FakeEncoder):
        def encode(self, texts, kind="passage"):
            return np.full((len(texts), 32), np.nan, dtype=np.float32)

    with pytest.raises(ModelError, match="not finite for chunk c0"):
        Embedder(settings(), encoder=Broken(32))(chunks({"text": "a"}))


@pytest.mark.parametrize("rows", [[], [{"text": "only a parent", "searchable": False}]])
def test_a_table_without_searchable_rows_keeps_its_type(rows):
    made = Embedder(settings())(chunks(*rows))
    assert made.num_rows == len(rows)
    assert made.schema.field("vector").type == vector_type(32)
