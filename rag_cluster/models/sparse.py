"""Texts to learned sparse vectors: weights of the terms of a vocabulary, most of them 0.

T. Formal, B. Piwowarski and S. Clinchant: SPLADE: Sparse Lexical and Expansion Model for First
Stage Ranking (SIGIR 2021). A text's vector also weighs terms that do not stand in it, and texts are
compared by the inner product.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rag_cluster.config import Sparse
from rag_cluster.errors import ModelError
from rag_cluster.models.encoder import (
    batches,
    choose_device,
    choose_dtype,
    load_transformer,
    threads_for,
    weights_revision,
)
from rag_cluster.models.fakes import words
from rag_cluster.models.locate import resolve_model
from rag_cluster.models.ports import Kind
from rag_cluster.models.tokenizer import load_tokenizer

# A batch holds a float per token and term of the vocabulary: 125 MB for 1,024 tokens of BERT's.
_CPU_BATCH_TOKENS = 1024
_GPU_BATCH_TOKENS = 8192


class SparseVector(NamedTuple):
    """`terms` int32 [n], rising, and their `weights` float32 [n], all above 0."""

    terms: NDArray[np.int32]
    weights: NDArray[np.float32]


class SparseEncoder(Protocol):
    """Texts to sparse vectors."""

    @property
    def terms(self) -> int:
        """The size of the vocabulary."""

    @property
    def max_tokens(self) -> int:
        """The window: tokens of a text that are read, special tokens included."""

    @property
    def revision(self) -> str:
        """What exactly the weights are (a hub commit, or a hash of the files)."""

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> list[SparseVector]:
        """A vector for each text; one without a term for a text that says nothing."""

    def beyond(self, texts: Sequence[str]) -> list[int]:
        """For each passage its tokens beyond the window, which are not read."""


def load_sparse_encoder(config: Sparse, threads: int | None = None) -> SparseEncoder:
    """The sparse encoder of a configuration. `threads` are the CPU threads that torch may use.

    Raises ModelError where there is none, or it is not found or cannot be loaded.
    """
    if config.model is None:
        raise ModelError("sparse.model is not set: name a SparseEncoder, such as SPLADE")
    if config.model.startswith("fake:"):
        size = config.model.removeprefix("fake:")
        if not size.isdigit() or size == "0":
            raise ModelError(f"sparse.model {config.model!r}: write fake:TERMS, such as fake:1000")
        return FakeSparseEncoder(int(size), config.max_tokens or 256, config.max_terms)
    return SpladeEncoder(config, config.model, threads)


class SpladeEncoder:
    """A sentence-transformers SparseEncoder. One call at a time computes (a lock).

    Prompts and the way of queries, where they have one of their own, are the model's. Raises
    ModelError for another kind of model: one would be given a layer of random numbers.
    """

    def __init__(self, config: Sparse, model: str, threads: int | None = None) -> None:
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        self._config = config
        self._lock = threading.Lock()
        folder = resolve_model(model, config.revision)
        if not _is_sparse(Path(folder)):
            raise ModelError(
                f"sparse.model {model!r} does not give sparse vectors: it is neither a "
                "SparseEncoder of sentence-transformers nor a masked language model, such as SPLADE"
            )
        self._tokenizer = load_tokenizer(model, config.revision)
        self._device = choose_device(config.device, "sparse.device")
        dtype = choose_dtype(config.dtype, self._device)
        self._model = load_transformer("SparseEncoder", folder, self._device, dtype)
        about = getattr(self._model.transformers_model, "config", None)
        positions = getattr(about, "max_position_embeddings", None) or 512
        self.max_tokens: int = config.max_tokens or min(
            int(self._model.max_seq_length or positions), positions
        )
        if self.max_tokens > positions:
            raise ModelError(
                f"sparse.max_tokens is {self.max_tokens}, but {model!r} reads {positions} at most"
            )
        self._model.max_seq_length = self.max_tokens
        self.revision: str = weights_revision(folder)
        self.terms: int = self._forward(["a"], "passage").shape[1]

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> list[SparseVector]:
        """A vector for each text. Raises ModelError for a weight that is negative or no number."""
        empty = SparseVector(np.empty(0, np.int32), np.empty(0, np.float32))
        found = [empty] * len(texts)
        lengths = [min(length, self.max_tokens) for length in self._lengths(texts)]
        tokens = _CPU_BATCH_TOKENS if self._device == "cpu" else _GPU_BATCH_TOKENS
        for rows in batches(lengths, self._config.batch_size, tokens):
            weights = self._forward([texts[row] for row in rows], kind)
            if not (weights >= 0).all():
                raise ModelError(
                    f"{self._config.model!r} gave a weight that is negative or no number: it is no "
                    "model of the SPLADE kind"
                )
            most = self._config.max_terms if kind == "passage" else None
            for row, line in zip(rows, weights, strict=True):
                found[row] = heaviest(line, most)
        return found

    def beyond(self, texts: Sequence[str]) -> list[int]:
        """For each passage its tokens beyond the window."""
        return [max(0, length - self.max_tokens) for length in self._lengths(texts)]

    def _lengths(self, texts: Sequence[str]) -> list[int]:
        special = self._tokenizer.special_tokens
        return [count + special for count in self._tokenizer.count(texts)]

    def _forward(self, texts: list[str], kind: Kind) -> NDArray[np.float32]:
        """float32 [len(texts), terms]."""
        encode = self._model.encode_query if kind == "query" else self._model.encode_document
        options: dict[str, Any] = {"batch_size": len(texts), "show_progress_bar": False}
        with self._lock, threads_for(len(texts)):
            output = encode(texts, convert_to_sparse_tensor=False, **options)
        weights: NDArray[np.float32] = output.float().cpu().numpy()
        return weights


class FakeSparseEncoder:
    """Each word is one of `terms` terms, by its hash; it weighs ln(1 + how often it stands there).

    Nothing is expanded, and nothing is random.
    """

    def __init__(self, terms: int = 1000, max_tokens: int = 256, most: int | None = None) -> None:
        self.terms = terms
        self.max_tokens = max_tokens
        self.revision = f"fake:{terms}"
        self._most = most

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> list[SparseVector]:
        """A vector for each text, of its first `max_tokens` - 2 words."""
        found = []
        for text in texts:
            line = np.zeros(self.terms, np.float32)
            counts = Counter(self._term(word) for word in words(text)[: self.max_tokens - 2])
            for term, count in counts.items():
                line[term] = np.log1p(count)
            found.append(heaviest(line, self._most if kind == "passage" else None))
        return found

    def beyond(self, texts: Sequence[str]) -> list[int]:
        """For each text its words beyond the first `max_tokens` - 2."""
        return [max(0, len(words(text)) - self.max_tokens + 2) for text in texts]

    def _term(self, word: str) -> int:
        data = word.encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big") % self.terms


def _is_sparse(folder: Path) -> bool:
    """Whether the folder holds a model whose output is sparse, by what it says of itself.

    sentence-transformers takes a folder without modules by its architecture.
    """
    if (folder / "modules.json").exists():
        about = _read(folder / "config_sentence_transformers.json")
        return about.get("model_type") == "SparseEncoder"
    architectures = _read(folder / "config.json").get("architectures") or []
    return any(str(name).endswith("ForMaskedLM") for name in architectures)


def _read(file: Path) -> dict[str, Any]:
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return tree if isinstance(tree, dict) else {}


def heaviest(line: NDArray[np.float32], most: int | None) -> SparseVector:
    """The positive weights of float32 [terms]; only the `most` heaviest, ties by term."""
    terms = np.flatnonzero(line > 0)
    if most is not None and len(terms) > most:
        order = np.lexsort((terms, -line[terms]))
        terms = np.sort(terms[order[:most]])
    return SparseVector(terms.astype(np.int32), line[terms].astype(np.float32))
