"""Counting tokens as the encoder does, without loading the encoder.

A model's `tokenizer.json` is read with the `tokenizers` package; torch is not imported. Positions
are Unicode code points of the text as it was given, whatever the tokenizer's normaliser does to it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import tokenizers

from rag_cluster.errors import ModelError
from rag_cluster.models.locate import resolve_model

Spans = list[tuple[int, int]]

# A run between the four characters that every BERT normaliser and pre-tokenizer takes for a space.
_BERT_RUN = re.compile(r"[^ \t\n\r]+")
# A word, a character of a script written without spaces, or a sign.
_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u9fff\uac00-\ud7af]+|\S"
)
_LONGEST_CACHED = 64
_LONGEST_RUN = 10_000
_MOST_CACHED = 500_000


class Tokenizer(Protocol):
    """Where the tokens of a text are."""

    @property
    def special_tokens(self) -> int:
        """Tokens such as [CLS] and [SEP] that a text costs beside its own."""

    def count(self, texts: Sequence[str]) -> list[int]:
        """For each text its tokens, without special ones."""

    def spans(self, text: str) -> Spans:
        """For each token (start, end) in code points; starts never decrease."""


class WordTokenizer:
    """The tokenizer of `fake:DIM` models: a token is a word, a CJK character or a sign."""

    special_tokens = 2

    def count(self, texts: Sequence[str]) -> list[int]:
        """For each text its tokens."""
        return [sum(1 for _ in _WORD.finditer(text)) for text in texts]

    def spans(self, text: str) -> Spans:
        """For each token (start, end) in code points."""
        return [match.span() for match in _WORD.finditer(text)]


class FileTokenizer:
    """The tokenizer of a `tokenizer.json`, with its truncation and padding switched off."""

    def __init__(self, file: str) -> None:
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(file)
        except Exception as error:
            raise ModelError(f"{file} is not a tokenizer that can be read: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.special_tokens: int = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        # To BERT's tokenizers a space is a wall: a word's tokens are the same in every text. So
        # each word is looked up once, which makes a corpus some ten times as fast to count.
        self._words: dict[str, Spans] | None = {} if _is_bert(self._tokenizer) else None

    def count(self, texts: Sequence[str]) -> list[int]:
        """For each text its tokens, without special ones."""
        if self._words is None:
            return [len(self._encode(text)) for text in texts]
        known, learn = self._words.get, self._learn
        return [
            sum([len(known(run) or learn(run)) for run in _BERT_RUN.findall(text)])
            for text in texts
        ]

    def spans(self, text: str) -> Spans:
        """For each token (start, end) in code points; starts never decrease."""
        if self._words is None:
            return _in_order(self._encode(text))
        known, learn = self._words.get, self._learn
        spans: Spans = []
        add = spans.append
        for match in _BERT_RUN.finditer(text):
            run, at = match.group(), match.start()
            for start, end in known(run) or learn(run):
                add((at + start, at + end))
        return spans

    def _learn(self, run: str) -> Spans:
        assert self._words is not None
        # The normaliser takes quadratic time over a run without end, so that is read in parts.
        parts = range(0, len(run), _LONGEST_RUN)
        spans = [
            (at + start, at + end)
            for at in parts
            for start, end in _in_order(self._encode(run[at : at + _LONGEST_RUN]))
        ]
        if len(run) <= _LONGEST_CACHED:
            if len(self._words) >= _MOST_CACHED:
                self._words.clear()
            self._words[run] = spans
        return spans

    def _encode(self, text: str) -> Spans:
        spans: Spans = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return spans


@functools.lru_cache(maxsize=8)
def load_tokenizer(model: str, revision: str | None = None) -> Tokenizer:
    """The tokenizer of an encoder: a hub id, a local path, package:MODULE/PATH, or fake:DIM.

    Raises ModelError where the model or its `tokenizer.json` is not found.
    """
    if model.startswith("fake:"):
        return WordTokenizer()
    folder = Path(resolve_model(model, revision))
    for file in (folder / "tokenizer.json", folder / "0_Transformer" / "tokenizer.json"):
        if file.is_file():
            return FileTokenizer(str(file))
    raise ModelError(
        f"the model {model!r} has no tokenizer.json in {folder}: save its fast tokenizer there "
        "(transformers' save_pretrained writes it)"
    )


def _is_bert(tokenizer: tokenizers.Tokenizer) -> bool:
    return isinstance(tokenizer.normalizer, tokenizers.normalizers.BertNormalizer) and isinstance(
        tokenizer.pre_tokenizer, tokenizers.pre_tokenizers.BertPreTokenizer
    )


def _in_order(spans: Spans) -> Spans:
    """The spans with starts that never decrease (some normalisers move characters about)."""
    if all(a[0] <= b[0] for a, b in itertools.pairwise(spans)):
        return spans
    latest, ordered = 0, []
    for start, end in spans:
        latest = max(latest, start)
        ordered.append((latest, max(end, latest)))
    return ordered
