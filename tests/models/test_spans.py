import json
from pathlib import Path

import numpy as np
import pytest
from tiny_models import save_encoder

from rag_cluster.config import Embed
from rag_cluster.errors import ModelError
from rag_cluster.models.encoder import SentenceTransformerEncoder
from rag_cluster.models.fakes import FakeEncoder
from rag_cluster.models.spans import pool_spans

TEXT = "the red cat sat on the mat and a blue dog ran"
PARTS = [(0, 19), (20, 31), (32, 45)]  # "... sat on", "the mat and", "a blue ..."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_encoder(tmp_path_factory.mktemp("encoder"))


def encoder(folder: str, **settings) -> SentenceTransformerEncoder:
    return SentenceTransformerEncoder(
        Embed(model=folder, device="cpu", dtype="float32", **settings)
    )


def test_the_mean_over_a_spans_tokens() -> None:
    # [CLS] one two three [SEP] of "one two three"
    states = np.arange(10, dtype=np.float32).reshape(5, 2)
    offsets = np.array([(0, 0), (0, 3), (4, 7), (8, 13), (0, 0)])
    special = np.array([True, False, False, False, True])
    found = pool_spans(states, offsets, special, [(4, 7), (0, 3), (8, 13), (0, 13), (3, 4)])
    np.testing.assert_array_equal(
        found,
        [
            states[2],
            states[:2].mean(axis=0),  # [CLS] goes with the first word
            states[3:].mean(axis=0),  # [SEP] with the last
            states.mean(axis=0),
            (states[0] + states[4]) / 2,  # no token at all
        ],
    )


def test_tokens_of_a_prefix_go_with_the_first_word() -> None:
    states = np.arange(8, dtype=np.float32).reshape(4, 2)
    offsets = np.array([(0, 2), (3, 6), (7, 10), (10, 11)])  # "p: one two."
    found = pool_spans(states, offsets, np.zeros(4, bool), [(3, 6), (7, 11)], start=3)
    np.testing.assert_array_equal(found, [states[:2].mean(axis=0), states[2:].mean(axis=0)])


def test_a_token_across_an_edge_belongs_to_both_sides() -> None:
    states = np.arange(6, dtype=np.float32).reshape(3, 2)
    offsets = np.array([(0, 2), (2, 6), (6, 8)])
    found = pool_spans(states, offsets, np.zeros(3, bool), [(0, 4), (4, 8)])
    np.testing.assert_array_equal(found, [states[:2].mean(axis=0), states[1:].mean(axis=0)])


@pytest.mark.parametrize(
    "settings",
    [{}, {"normalize": False}, {"dim": 8}, {"passage_prefix": "one two "}],
    ids=str,
)
def test_a_span_of_the_whole_is_what_the_model_gives(folder: str, settings: dict) -> None:
    model = encoder(folder, **settings)
    texts = [TEXT, "the dog", "a cat sat"]
    found = model.encode_spans(texts, [[(0, len(text))] for text in texts])
    np.testing.assert_allclose(np.concatenate(found), model.encode(texts), rtol=0, atol=2e-6)


def test_a_part_is_read_within_the_whole(folder: str) -> None:
    model = encoder(folder)
    (found,) = model.encode_spans([TEXT], [PARTS])
    assert found.shape == (3, 16)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
    alone = model.encode([TEXT[start:end] for start, end in PARTS])
    assert np.abs(found - alone).max() > 1e-3
    (other,) = model.encode_spans([TEXT.replace("dog", "cat")], [PARTS])
    assert np.abs(found[0] - other[0]).max() > 2e-5  # the end of the text is known at its start


def test_what_is_encoded_beside_it_changes_nothing(folder: str) -> None:
    model = encoder(folder)
    alone = model.encode_spans([TEXT], [PARTS])[0]
    beside = model.encode_spans(["the dog", TEXT], [[(0, 3)], PARTS])[1]
    np.testing.assert_allclose(alone, beside, rtol=0, atol=2e-6)


def test_tokens_beyond_the_window_play_no_part(folder: str) -> None:
    model = encoder(folder, max_tokens=8)  # [CLS], six words, [SEP]
    (found,) = model.encode_spans([TEXT], [[(0, len(TEXT))]])
    np.testing.assert_allclose(found, model.encode([TEXT]), rtol=0, atol=2e-6)


@pytest.mark.parametrize("pooling", ["cls", "lasttoken", "max", "mean_sqrt_len_tokens"])
def test_other_poolings_are_refused(tmp_path: Path, pooling: str) -> None:
    folder = save_encoder(tmp_path)
    settings = {"embedding_dimension": 16, "pooling_mode": pooling}
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps(settings))
    with pytest.raises(ModelError, match=f"pools its tokens by '{pooling}'; late chunking needs"):
        encoder(folder).encode_spans([TEXT], [PARTS])


def test_a_layer_behind_the_pooling_is_refused(tmp_path: Path, folder: str) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense

    model = SentenceTransformer(folder, device="cpu")
    model.append(Dense(16, 8))
    model.save_pretrained(str(tmp_path))
    with pytest.raises(ModelError, match="has a module Dense; late chunking needs"):
        encoder(str(tmp_path)).encode_spans([TEXT], [PARTS])


def test_the_fake_takes_the_span_alone() -> None:
    fake = FakeEncoder(16)
    (found,) = fake.encode_spans([TEXT], [PARTS])
    np.testing.assert_array_equal(found, fake.encode([TEXT[a:b] for a, b in PARTS]))
