import numpy as np
import pytest
import tiny_models
import torch
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.config import Embed
from rag_cluster.errors import ModelError
from rag_cluster.models.encoder import batches, choose_device, choose_dtype, load_encoder

TEXTS = ["the cat sat on the mat", "", "a dog ran", "money " * 200, "the bank of the river"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.save_encoder(tmp_path_factory.mktemp("encoder"))


@given(st.lists(st.integers(0, 600), max_size=60), st.integers(1, 40), st.integers(1, 2000))
def test_batches_hold_every_row_once_within_their_limits(lengths, most, tokens):
    made = batches(lengths, most, tokens)
    assert sorted(row for rows in made for row in rows) == list(range(len(lengths)))
    for rows in made:
        width = max(lengths[row] for row in rows)
        assert len(rows) == 1 or (len(rows) <= most and len(rows) * width <= tokens)


def test_batches_put_like_lengths_together():
    assert batches([5, 9, 5, 8, 1], 2, 100) == [[1, 3], [0, 2], [4]]


@pytest.mark.parametrize(
    ("flags", "device", "dtype"),
    [
        ({"avx2"}, "cpu", torch.float32),
        ({"avx512_bf16"}, "cpu", torch.bfloat16),
        ({"amx_bf16"}, "cpu", torch.bfloat16),
        ({"avx2"}, "cuda", torch.float16),
    ],
)
def test_auto_dtype_follows_the_processor(flags, device, dtype):
    assert choose_dtype("auto", device, frozenset(flags)) == dtype


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_absent_is_refused():
    with pytest.raises(ModelError, match="'cuda'"):
        choose_device("cuda")


def test_vectors_are_those_of_sentence_transformers(folder):
    from sentence_transformers import SentenceTransformer

    expected = SentenceTransformer(folder, device="cpu").encode(
        TEXTS, normalize_embeddings=True, show_progress_bar=False
    )
    encoder = load_encoder(Embed(model=folder, dtype="float32", device="cpu"))
    np.testing.assert_allclose(encoder.encode(TEXTS), expected, atol=1e-5)


def test_prefixes_are_put_before_queries_and_passages(folder):
    plain = load_encoder(Embed(model=folder, device="cpu"))
    prefixed = load_encoder(
        Embed(model=folder, device="cpu", query_prefix="who ", passage_prefix="what ")
    )
    np.testing.assert_allclose(
        prefixed.encode(["the cat"], "query"), plain.encode(["who the cat"]), atol=1e-6
    )
    np.testing.assert_allclose(
        prefixed.encode(["the cat"], "passage"), plain.encode(["what the cat"]), atol=1e-6
    )


def test_matryoshka_cuts_then_normalises(folder):
    whole = load_encoder(Embed(model=folder, device="cpu", normalize=False)).encode(TEXTS)
    cut = load_encoder(Embed(model=folder, device="cpu", dim=4))
    first = whole[:, :4]
    expected = first / np.linalg.norm(first, axis=1, keepdims=True)
    assert cut.dim == 4
    np.testing.assert_allclose(cut.encode(TEXTS), expected, atol=1e-5)


def test_max_tokens_is_the_window(folder):
    encoder = load_encoder(Embed(model=folder, device="cpu", max_tokens=8))
    assert encoder.max_tokens == 8
    # [CLS], six words, [SEP]
    same = encoder.encode(["one two three cat dog mat", "one two three cat dog mat red blue"])
    np.testing.assert_allclose(same[0], same[1], atol=1e-6)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"dim": 17}, "17.*has 16 dimensions"),
        ({"max_tokens": 65}, "65.*reads 64 at most"),
    ],
)
def test_more_than_the_model_has_is_refused(folder, keys, words):
    with pytest.raises(ModelError, match=words):
        load_encoder(Embed(model=folder, device="cpu", **keys))


def test_the_revision_follows_the_weights(folder, tmp_path):
    import shutil

    copy = shutil.copytree(folder, tmp_path / "copy")
    assert (
        load_encoder(Embed(model=str(copy), device="cpu")).revision
        == load_encoder(Embed(model=folder, device="cpu")).revision
    )
    (copy / "config_sentence_transformers.json").write_text("{}")
    assert (
        load_encoder(Embed(model=str(copy), device="cpu")).revision
        != load_encoder(Embed(model=folder, device="cpu")).revision
    )


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match="tokenizer"):
        load_encoder(Embed(model=str(tmp_path), device="cpu"))


def test_fake_models_are_named_with_their_dimension():
    assert load_encoder(Embed(model="fake:48")).dim == 48
    with pytest.raises(ModelError, match="fake:DIM"):
        load_encoder(Embed(model="fake:many"))
