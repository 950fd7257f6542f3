import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_cluster.config import Lexical
from rag_cluster.errors import CollectionError
from rag_cluster.index import lexical
from rag_cluster.index.topk import merge_topk

TEXTS = ["red fox", "red red dog runs", "", "blue dog"]
PLAIN = Lexical(language="none")

documents = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6).map(" ".join), max_size=12)


def test_scores_are_the_formula() -> None:
    # N = 4, avgdl = (2 + 4 + 0 + 2) / 4 = 2; red is in 2 documents, fox in 1.
    config = Lexical(k1=1.5, b=0.75)
    shard = lexical.build_shard(TEXTS, lexical.statistics(TEXTS, config), config)
    scores, rows = shard.search(["red", "red fox"], 4)
    idf_red = math.log(1 + (4 - 2 + 0.5) / (2 + 0.5))
    idf_fox = math.log(1 + (4 - 1 + 0.5) / (1 + 0.5))
    red_in_0 = idf_red * 1 / (1 + 1.5 * (1 - 0.75 + 0.75 * 2 / 2))
    red_in_1 = idf_red * 2 / (2 + 1.5 * (1 - 0.75 + 0.75 * 4 / 2))
    fox_in_0 = idf_fox * 1 / (1 + 1.5 * (1 - 0.75 + 0.75 * 2 / 2))
    assert rows.tolist() == [[1, 0, -1, -1], [0, 1, -1, -1]]
    assert scores[0, :2] == pytest.approx([red_in_1, red_in_0], rel=1e-6)
    assert scores[1, :2] == pytest.approx([red_in_0 + fox_in_0, red_in_1], rel=1e-6)
    # ln 2 / 2.5 and 2 ln 2 / 4.625, in numbers
    assert scores[0, :2] == pytest.approx([0.299739, 0.277259], abs=1e-6)


WORDS = st.dictionaries(
    st.sampled_from(["a", "b", "c d", "a a g", "unknown"]), st.floats(0.1, 2), max_size=4
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdefg"), max_size=6).map(" ".join)), WORDS)
def test_words_add_their_scores_by_their_weights(texts: list[str], words: dict[str, float]) -> None:
    shard = lexical.build_shard(texts, lexical.statistics(texts, PLAIN), PLAIN)
    expected = np.zeros(len(texts))
    for word, weight in words.items():
        scores, rows = shard.search([word], len(texts) + 1)
        found = rows[0] >= 0
        expected[rows[0][found]] += weight * scores[0][found]
    scores, rows = shard.search_words(words, len(texts) + 1)
    found = rows[0] >= 0
    assert found.sum() == np.count_nonzero(expected)
    np.testing.assert_allclose(scores[0][found], expected[rows[0][found]], rtol=1e-5)
    assert (np.diff(scores[0][found]) <= 0).all()


def test_words_of_weight_one_are_their_query_under_a_mask_too() -> None:
    config = Lexical()
    shard = lexical.build_shard(TEXTS, lexical.statistics(TEXTS, config), config)
    for mask in (None, np.array([True, False, True, True])):
        np.testing.assert_allclose(
            shard.search_words({"red": 1.0, "fox": 1.0}, 3, mask)[0],
            shard.search(["red fox"], 3, mask)[0],
            rtol=1e-6,
        )
    with pytest.raises(ValueError, match="k"):
        shard.search_words({"red": 1.0}, 0)


def test_statistics_are_counts_of_documents() -> None:
    stats = lexical.statistics(TEXTS, Lexical())
    assert (stats.documents, stats.terms, stats.average_length) == (4, 8, 2.0)
    assert stats.document_frequency == {"red": 2, "fox": 1, "dog": 2, "run": 1, "blue": 1}
    assert lexical.statistics([], Lexical()).average_length == 0.0


@settings(max_examples=60, deadline=None)
@given(st.lists(documents, min_size=1, max_size=4), st.integers(1, 12))
def test_shards_score_exactly_as_one(shards: list[list[str]], k: int) -> None:
    parts = [lexical.statistics(texts, PLAIN) for texts in shards]
    stats = lexical.merge(parts)
    everything = [text for texts in shards for text in texts]
    assert stats == lexical.statistics(everything, PLAIN)
    assert stats == sum(parts[1:], parts[0])
    queries = ["a", "b c c", "g a f"]
    offsets = [sum(len(texts) for texts in shards[:i]) for i in range(len(shards))]
    hits = [lexical.build_shard(texts, stats, PLAIN).search(queries, k) for texts in shards]
    merged = merge_topk(hits, offsets, k)
    whole = lexical.build_shard(everything, stats, PLAIN).search(queries, k)
    np.testing.assert_array_equal(merged[0], whole[0])
    np.testing.assert_array_equal(merged[1], whole[1])


def test_statistics_survive_the_disk(tmp_path: Path) -> None:
    stats = lexical.statistics([*TEXTS, "北京大学"], Lexical())
    stats.save(tmp_path / "statistics.json")
    assert lexical.Statistics.load(tmp_path / "statistics.json") == stats


@pytest.mark.parametrize("content", ["", "[]", '{"documents": 1}', '{"documents": null}'])
def test_damaged_statistics_are_reported(tmp_path: Path, content: str) -> None:
    path = tmp_path / "statistics.json"
    path.write_text(content)
    with pytest.raises(CollectionError, match=r"statistics\.json"):
        lexical.Statistics.load(path)


def test_statistics_of_other_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="do not cover"):
        lexical.build_shard(TEXTS, lexical.statistics(["other"], Lexical()), Lexical())


def saved(tmp_path: Path, config: Lexical) -> Path:
    folder = tmp_path / "lexical"
    lexical.build_shard(TEXTS, lexical.statistics(TEXTS, config), config).save(folder)
    return folder


def test_files_are_arrays_and_json_and_are_mapped(tmp_path: Path) -> None:
    folder = saved(tmp_path, Lexical())
    assert {path.suffix for path in folder.iterdir()} == {".npy", ".json"}
    shard = lexical.LexicalShard.open(folder, Lexical())
    assert isinstance(shard._retriever.scores["data"].base, np.memmap)
    assert shard.size == 4


@pytest.mark.parametrize("setting", [{"language": "german"}, {"k1": 0.9}, {"b": 0.5}], ids=str)
def test_other_settings_than_those_of_the_build_are_refused(
    tmp_path: Path, setting: dict[str, object]
) -> None:
    folder = saved(tmp_path, Lexical(language="en"))
    lexical.LexicalShard.open(folder, Lexical(language="english"))
    with pytest.raises(CollectionError, match="ingest again"):
        lexical.LexicalShard.open(folder, Lexical(**setting))


def test_another_analyzer_or_a_damaged_file_is_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path, Lexical())
    with pytest.raises(CollectionError, match="cannot read"):
        lexical.LexicalShard.open(tmp_path / "absent", Lexical())
    (folder / "data.csc.index.npy").write_bytes(b"nonsense")
    with pytest.raises(CollectionError, match="cannot be read"):
        lexical.LexicalShard.open(folder, Lexical())
    (folder / "analyzer.json").write_text(json.dumps({"language": "english", "version": 0}))
    with pytest.raises(CollectionError, match="version 0"):
        lexical.LexicalShard.open(folder, Lexical())
