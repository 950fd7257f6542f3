from __future__ import annotations

import subprocess
import sys

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.config import PACKAGED_ENCODER
from rag_cluster.errors import ModelError
from rag_cluster.models.locate import resolve_model
from rag_cluster.models.tokenizer import FileTokenizer, WordTokenizer, load_tokenizer

UNIGRAM = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "BPE", "vocab": {"▁": 0, "a": 1, "b": 2, "▁a": 3}, "merges": ["▁ a"]},
}


@pytest.fixture(scope="module")
def raw() -> tokenizers.Tokenizer:
    file = f"{resolve_model(PACKAGED_ENCODER)}/tokenizer.json"
    tokenizer = tokenizers.Tokenizer.from_file(file)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def test_counts_every_token_of_a_long_text() -> None:
    tokenizer = load_tokenizer(PACKAGED_ENCODER)
    # tokenizer.json of this model truncates at 128 and pads to 128 when it is left to itself.
    assert tokenizer.count(["word " * 1000, "word", ""]) == [1000, 1, 0]
    assert tokenizer.special_tokens == 2


def test_spans_are_code_points() -> None:
    text = "Café 😀 München\u200b 日本"
    spans = load_tokenizer(PACKAGED_ENCODER).spans(text)
    assert [text[a:b] for a, b in spans] == ["Café", "😀", "München", "日", "本"]


TEXTS = st.text(
    st.one_of(
        st.sampled_from(list(" \n\t\r\xa0\u2003\u200b\u0301\x00\x0b\x1c\x85aZéß.,-$|日😀")),
        st.characters(codec="utf-8"),
    ),
    max_size=60,
)


@given(TEXTS)
def test_word_by_word_is_the_same_as_at_once(raw: tokenizers.Tokenizer, text: str) -> None:
    whole = raw.encode(text, add_special_tokens=False).offsets
    tokenizer = load_tokenizer(PACKAGED_ENCODER)
    assert tokenizer.spans(text) == whole
    assert tokenizer.count([text]) == [len(whole)]


def test_special_tokens_written_in_a_text(raw: tokenizers.Tokenizer) -> None:
    text = "say [SEP] or x[MASK] y [CLS]z"
    whole = raw.encode(text, add_special_tokens=False).offsets
    assert load_tokenizer(PACKAGED_ENCODER).spans(text) == whole


@given(TEXTS)
def test_starts_never_decrease(text: str) -> None:
    for tokenizer in (load_tokenizer(PACKAGED_ENCODER), WordTokenizer()):
        spans = tokenizer.spans(text)
        assert all(0 <= a <= b <= len(text) for a, b in spans)
        assert [a for a, _ in spans] == sorted(a for a, _ in spans)
        assert tokenizer.count([text]) == [len(spans)]


def test_a_run_without_end_is_read_in_parts() -> None:
    text = "日" * 25_000
    assert load_tokenizer(PACKAGED_ENCODER).spans(text) == [(i, i + 1) for i in range(25_000)]


def test_another_kind_of_tokenizer(tmp_path) -> None:
    import json

    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(UNIGRAM), encoding="utf-8")
    tokenizer = FileTokenizer(str(file))
    assert isinstance(load_tokenizer(str(tmp_path)), FileTokenizer)
    assert tokenizer.count(["a b"]) == [3]  # "▁a", "▁", "b"
    assert tokenizer.special_tokens == 0


def test_fake_models_count_words_signs_and_characters() -> None:
    tokenizer = load_tokenizer("fake:32")
    assert tokenizer.count(["Ein Wort, 日本 x_y"]) == [8]
    assert tokenizer.spans("a, 日本") == [(0, 1), (1, 2), (3, 4), (4, 5)]


def test_what_cannot_be_loaded_says_so(tmp_path) -> None:
    with pytest.raises(ModelError, match=r"has no tokenizer\.json in"):
        load_tokenizer(str(tmp_path))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="is not a tokenizer"):
        load_tokenizer(str(tmp_path))


def test_torch_is_not_imported() -> None:
    code = (
        "import sys; from rag_cluster.models.tokenizer import load_tokenizer; "
        f"load_tokenizer({PACKAGED_ENCODER!r}).count(['x']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
