"""Relevance of passages to a query: a cross-encoder, or late interaction over token vectors.

Beside it: `colbert` (a model that was trained for late interaction) and `monot5`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Literal

import numpy as np

from rag_cluster.errors import ModelError
from rag_cluster.models.encoder import batches, choose_device, choose_dtype, load_transformer
from rag_cluster.models.fakes import FakeScorer
from rag_cluster.models.locate import resolve_model
from rag_cluster.models.ports import Encoder, Scorer, Vectors


def load_scorer(
    kind: Literal["cross_encoder", "colbert", "monot5"], model: str, batch_size: int = 32
) -> Scorer:
    """A reranker with a model of its own: a hub id, local folder or package:MODULE/PATH.

    Raises ModelError where the model is not found, cannot be loaded, or is of another kind.
    """
    match kind:
        case "cross_encoder":
            return load_cross_encoder(model, batch_size)
        case "colbert":
            from rag_cluster.models.colbert import ColbertScorer

            return ColbertScorer(model, batch_size)
        case "monot5":
            from rag_cluster.models.monot5 import MonoT5Scorer

            return MonoT5Scorer(model, batch_size)


def load_cross_encoder(model: str, batch_size: int = 32) -> Scorer:
    """The cross-encoder of a hub id, local folder or package:MODULE/PATH; or fake:overlap.

    Raises ModelError where it is not found, cannot be loaded, or does not give one score per pair.
    """
    if model == "fake:overlap":
        return FakeScorer()
    return CrossEncoderScorer(model, batch_size)


class CrossEncoderScorer:
    """A sentence-transformers CrossEncoder; passages of like length are scored together."""

    def __init__(self, model: str, batch_size: int = 32) -> None:
        device = choose_device("auto")
        self._model = load_transformer(
            "CrossEncoder", resolve_model(model), device, choose_dtype("auto", device)
        )
        if self._model.num_labels != 1:
            raise ModelError(
                f"{model!r} gives {self._model.num_labels} scores per pair; a reranker gives one"
            )
        self._batch_size = batch_size
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [len(texts)]."""
        scores = np.zeros(len(texts), dtype=np.float32)
        # Characters stand for tokens here: they only decide what is padded together.
        plan = batches([len(text) for text in texts], self._batch_size, 1 << 30)
        with self._lock:
            for rows in plan:
                scores[rows] = self._model.predict(
                    [(query, texts[row]) for row in rows],
                    batch_size=len(rows),
                    show_progress_bar=False,
                )
        return scores


class LateInteractionScorer:
    """MaxSim over an encoder's token vectors; needs no model beside the encoder.

    The score is the sum over the query's tokens of the largest cosine to a token of the passage
    (O. Khattab and M. Zaharia, ColBERT, SIGIR 2020, equation 3), so it lies within
    [-query tokens, query tokens].
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def score(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [len(texts)]."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        asked = self._encoder.encode_tokens([query], "query")[0]
        passages = self._encoder.encode_tokens(texts, "passage")
        return np.array([max_sim(asked, passage) for passage in passages], dtype=np.float32)


def max_sim(query: Vectors, passage: Vectors) -> float:
    """The sum over the rows of `query` of their largest inner product with a row of `passage`.

    float32 [query tokens, dim] and [passage tokens, dim]; 0 where either has no rows.
    """
    if not len(query) or not len(passage):
        return 0.0
    return float((query @ passage.T).max(axis=1).sum())
