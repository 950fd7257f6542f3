"""Late chunking: vectors of chunks that were read within their document."""

import numpy as np
import pytest

from rag_cluster import config
from rag_cluster.chunk.stage import Chunker
from rag_cluster.embed import LateEmbedder
from rag_cluster.errors import ConfigError, IngestError
from rag_cluster.hashes import Hashes
from rag_cluster.models.fakes import FakeEncoder
from rag_cluster.schema import CHUNK, DOCUMENT, rows_to_table, vector_type

SETTINGS = ["embed.model=fake:32", "embed.mode=late", "chunk.strategy=sentence", "chunk.size=8",
            "chunk.min_size=0"]  # fmt: skip
# Five sentences of eight tokens.
TEXT = " ".join(f"Sentence {n} has words like word{n} here." for n in range(5))


class Counting(FakeEncoder):
    def __init__(self, max_tokens: int = 256) -> None:
        super().__init__(32, max_tokens)
        self.seen: list[tuple[str, int]] = []

    def encode_spans(self, texts, spans):
        self.seen += [(text, len(own)) for text, own in zip(texts, spans, strict=True)]
        return super().encode_spans(texts, spans)


def documents(*texts: str, **columns):
    rows = [
        {"doc_id": f"d{i}", "uri": f"{i}.txt", "content_hash": f"h{i}", "status": "ok",
         "text": text, "metadata": "{}"} | columns
        for i, text in enumerate(texts)
    ]  # fmt: skip
    return rows_to_table(rows, DOCUMENT)


def embedder(*more: str, known: Hashes | None = None, encoder: FakeEncoder | None = None):
    tree = config.load(None, [*SETTINGS, *more])
    return LateEmbedder(tree, Chunker(tree), encoder=encoder, known=known)


def test_chunks_come_with_their_vectors() -> None:
    made = embedder()(documents(TEXT))
    assert made.column_names == [*CHUNK.names, "vector", "truncated", "text_hash", "reused"]
    assert made.schema.field("vector").type == vector_type(32)
    vectors = np.array(made["vector"].to_pylist(), np.float32)
    np.testing.assert_array_equal(vectors, FakeEncoder(32).encode(made["text"].to_pylist()))
    assert len(set(made["text_hash"].to_pylist())) == made.num_rows == 5
    assert made["reused"].to_pylist() == [False] * 5


def test_a_document_that_fits_is_encoded_once() -> None:
    encoder = Counting()
    embedder(encoder=encoder)(documents(f" {TEXT}\n", "Short."))
    assert encoder.seen == [(TEXT, 5), ("Short.", 1)]


def test_a_long_document_is_read_in_windows() -> None:
    encoder = Counting(max_tokens=26)  # 24 words: three sentences
    made = embedder("embed.late_overlap=8", encoder=encoder)(documents(TEXT))
    assert [count for _, count in encoder.seen] == [3, 2]
    assert [text for text, _ in encoder.seen] == [TEXT[: TEXT.index(" Sentence 3")],
                                                  TEXT[TEXT.index("Sentence 2") :]]  # fmt: skip
    assert made["truncated"].to_pylist() == [0] * 5


def test_a_vectors_name_is_of_all_that_it_depends_on() -> None:
    make = embedder("embed.late_overlap=8", encoder=Counting(max_tokens=26))
    before = make(documents(TEXT))["text_hash"].to_pylist()
    assert make(documents(TEXT))["text_hash"].to_pylist() == before
    # Another word in the last sentence: the windows of the first three sentences are as before.
    changed = make(documents(TEXT.replace("word4", "other")))["text_hash"].to_pylist()
    assert [a == b for a, b in zip(before, changed, strict=True)] == [True] * 3 + [False] * 2
    # Two words at the beginning: the last window, counted from the end, is as before.
    longer = make(documents(f"New. {TEXT}"))["text_hash"].to_pylist()
    assert [name in longer for name in before] == [False] * 3 + [True] * 2


def test_equal_documents_are_encoded_once() -> None:
    encoder = Counting()
    made = embedder(encoder=encoder)(documents(TEXT, TEXT))
    assert encoder.seen == [(TEXT, 5)]
    vectors = made["vector"].to_pylist()
    assert vectors[:5] == vectors[5:]


def test_what_has_a_vector_is_not_encoded_again() -> None:
    names = embedder()(documents(TEXT))["text_hash"].to_pylist()
    encoder = Counting()
    made = embedder(known=Hashes.of(names[1:]), encoder=encoder)(documents(TEXT))
    assert encoder.seen == [(TEXT, 1)]
    assert made["reused"].to_pylist() == [False] + [True] * 4
    assert [value.is_valid for value in made["vector"]] == [True] + [False] * 4
    assert made["text_hash"].to_pylist() == names


def test_documents_of_one_id_keep_their_own_texts() -> None:
    made = embedder()(documents("One text.", "Another text.", doc_id="same"))
    vectors = np.array(made["vector"].to_pylist(), np.float32)
    np.testing.assert_array_equal(vectors, FakeEncoder(32).encode(["One text.", "Another text."]))


def test_parents_have_no_vector() -> None:
    made = embedder("chunk.strategy=section", "chunk.size=20")(documents(TEXT))
    assert made["searchable"].to_pylist() == [False, True, True, True]
    assert [value.is_valid for value in made["vector"]] == [False, True, True, True]


def test_what_no_window_holds_is_counted() -> None:
    formula = "$$ " + " + ".join("abcdefgh") + " $$"  # 4 + 15 tokens
    text = f"{TEXT} {formula}"
    made = embedder(encoder=Counting(max_tokens=12))(documents(text))
    assert [n for n in made["truncated"].to_pylist() if n] == [9]
    with pytest.raises(IngestError, match="has 9 tokens beyond"):
        embedder("embed.truncation=fail", encoder=Counting(max_tokens=12))(documents(text))


@pytest.mark.parametrize("texts", [[], [" \n"]])
def test_no_chunks_still_have_their_columns(texts: list[str]) -> None:
    made = embedder()(documents(*texts))
    assert made.num_rows == 0
    assert made.schema.field("vector").type == vector_type(32)


def test_an_overlap_without_room_is_refused() -> None:
    with pytest.raises(ConfigError, match="late_overlap is 30, but a window has only 24 tokens"):
        embedder("embed.late_overlap=30", encoder=Counting(max_tokens=26))
