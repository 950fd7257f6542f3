from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from made_documents import Made

from rag_cluster import config
from rag_cluster.chunk.stage import Chunker, chunker_fingerprint
from rag_cluster.errors import ConfigError
from rag_cluster.models.fakes import FakeEncoder

# Eight tokens each, by the tokenizer of fake models.
PUMP = "The pump has a valve and seals."
ROSE = "The rose has a thorn and leaves."


class Subjects:
    """Vectors of length 1 whose angle says how much a text speaks of roses rather than pumps."""

    dim, max_tokens, revision = 2, 256, "subjects"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def encode(self, texts: Sequence[str], kind: str = "passage") -> np.ndarray:
        self.calls.append(list(texts))
        pumps = np.array([text.count("pump") for text in texts])
        roses = np.array([text.count("rose") for text in texts])
        angles = np.pi / 2 * (roses + 1e-6) / (pumps + roses + 2e-6)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def chunks(*documents: Made, encoder: Any = None, **settings: Any) -> list[dict[str, Any]]:
    chunk = {"strategy": "semantic", "size": 64, "min_size": 0} | settings
    tree = config.build({"chunk": chunk, "embed": {"model": "fake:8"}})
    chunker = Chunker(tree, encoder=encoder or Subjects())
    return [row for made in documents for row in chunker(made.documents()).to_pylist()]


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return [row["text"] for row in rows]


def test_a_chunk_ends_where_the_subject_changes() -> None:
    document = Made().add(f"{PUMP} {PUMP} {PUMP} {ROSE} {ROSE}")
    assert texts(chunks(document)) == [f"{PUMP} {PUMP} {PUMP}", f"{ROSE} {ROSE}"]


def test_as_many_gaps_as_the_percentile_says_are_cut() -> None:
    # Cosines 1, 0, cos 45 degrees (.707), .707: below their median of .707 is only 0.
    mixed = "The pump and the rose are wet."
    document = Made().add(f"{PUMP} {PUMP} {ROSE} {mixed} {ROSE}")
    assert len(chunks(document, semantic={"percentile": 50})) == 2
    assert len(chunks(document, semantic={"percentile": 100})) == 4
    assert len(chunks(document, semantic={"percentile": 0})) == 1


def test_a_threshold_stands_in_place_of_the_percentile() -> None:
    mixed = "The pump and the rose are wet."
    document = Made().add(f"{PUMP} {mixed} {ROSE} {ROSE}")
    assert len(chunks(document, semantic={"threshold": 0.8})) == 3
    assert len(chunks(document, semantic={"threshold": 0.7})) == 1


def test_a_wider_window_does_not_mind_one_sentence() -> None:
    document = Made().add(f"{PUMP} {PUMP} {PUMP} {ROSE} {PUMP} {PUMP} {PUMP} {ROSE} {ROSE} {ROSE}")
    narrow = chunks(document, semantic={"threshold": 0.3})
    # Beside two others the stray rose counts a third: cosines of .89 (2 / sqrt 5), and not of 0.
    wide = chunks(document, semantic={"threshold": 0.3, "window": 3})
    assert len(narrow) == 4
    assert len(wide) == 2
    assert texts(wide)[1] == f"{ROSE} {ROSE} {ROSE}"


def test_a_heading_stays_with_the_text_under_it() -> None:
    document = Made().add(f"{PUMP} {PUMP}").heading("About the pump").add(f"{ROSE} {ROSE}")
    rows = chunks(document, semantic={"threshold": 0.99})
    assert texts(rows) == [f"{PUMP} {PUMP}", f"About the pump\n{ROSE}", ROSE]


def test_what_is_too_large_is_cut_at_its_weakest_link() -> None:
    mixed = "The pump and the rose are wet."
    document = Made().add(f"{PUMP} {PUMP} {mixed} {mixed} {mixed}")  # 40 tokens
    rows = chunks(document, size=32, semantic={"threshold": -1})
    assert texts(rows) == [f"{PUMP} {PUMP}", f"{mixed} {mixed} {mixed}"]


def test_what_is_small_joins_the_neighbour_that_it_is_more_like() -> None:
    document = Made().add(f"{PUMP} {PUMP} A pump. {ROSE} {ROSE}")
    every = {"threshold": 1.0}
    assert texts(chunks(document, min_size=5, semantic={"threshold": 0.5})) == [
        f"{PUMP} {PUMP} A pump.",
        f"{ROSE} {ROSE}",
    ]
    mixed = "A pump, a pump and a rose."  # nearer to pumps; 9 tokens
    document = Made().add(f"{ROSE} {mixed} {PUMP}")
    assert texts(chunks(document, min_size=10, size=18, semantic=every))[0] == ROSE + " " + mixed
    document = Made().add(f"{ROSE} {PUMP} {mixed}")
    assert texts(chunks(document, min_size=9, size=18, semantic=every)) == [
        ROSE + " " + PUMP,
        mixed,
    ]


def test_a_table_is_never_cut_by_its_sentences() -> None:
    document = Made().add(f"{PUMP} {PUMP}")
    document.table(["| a | b |", "|---|---|"], [f"| {PUMP} | {ROSE} |"])
    document.add(f"{ROSE} {ROSE}")
    encoder = Subjects()
    rows = chunks(document, encoder=encoder, min_size=4, semantic={"threshold": 0.99})
    assert [row["kind"] for row in rows] == ["fragment", "table", "fragment"]
    assert encoder.calls == [[PUMP, PUMP, ROSE, ROSE]]


def test_a_long_sentence_is_cut_at_a_word() -> None:
    document = Made().add("pump " * 40 + "ends.")
    rows = chunks(document, size=16)
    assert max(row["tokens"] for row in rows) <= 16
    assert "".join(texts(rows)).replace(" ", "") == document.text.replace(" ", "").strip()


def test_each_document_is_cut_by_itself() -> None:
    one, two = Made().add(f"{PUMP} {PUMP} {ROSE}"), Made().add(f"{ROSE} {ROSE} {PUMP}")
    encoder = Subjects()
    together = texts(chunks(one, two, encoder=encoder))
    assert together == texts(chunks(one)) + texts(chunks(two))
    assert encoder.calls == [[PUMP, PUMP, ROSE], [ROSE, ROSE, PUMP]]


def test_one_sentence_or_none_needs_no_vectors() -> None:
    encoder = Subjects()
    assert texts(chunks(Made().add(PUMP), encoder=encoder)) == [PUMP]
    assert chunks(Made().add(" "), encoder=encoder) == []
    assert encoder.calls == []


def test_what_makes_the_vectors_is_in_the_chunks_names() -> None:
    def named(strategy: str, **embed: Any) -> str:
        tree = {"chunk": {"strategy": strategy}, "embed": {"model": "fake:8"} | embed}
        return chunker_fingerprint(config.build(tree))

    assert named("semantic") != named("semantic", passage_prefix="passage: ")
    assert named("semantic") != named("semantic", max_tokens=64)
    assert named("sentence") == named("sentence", passage_prefix="passage: ")


def test_overlap_is_refused() -> None:
    with pytest.raises(ConfigError, match="share nothing: set overlap to 0"):
        config.build({"chunk": {"strategy": "semantic", "overlap": 8}})


def test_the_configurations_own_encoder_is_loaded() -> None:
    tree = config.build({"chunk": {"strategy": "semantic"}, "embed": {"model": "fake:8"}})
    documents = Made().add(f"{PUMP} {PUMP} {ROSE}").documents()
    own, given = Chunker(tree), Chunker(tree, encoder=FakeEncoder(8))
    assert own(documents).equals(given(documents))
