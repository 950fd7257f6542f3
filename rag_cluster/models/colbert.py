"""ColBERT: a model that was trained to match a query's tokens with a passage's.

Khattab, Zaharia: ColBERT (SIGIR 2020). sentence-transformers' MultiVectorEncoder loads what it
saved itself, what PyLate saved, and Stanford's checkpoints (such as colbertv2.0), each with its
markers, its lengths, its expansion of queries and its punctuation that does not count.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rag_cluster.errors import ModelError
from rag_cluster.models.encoder import choose_device, choose_dtype, load_transformer
from rag_cluster.models.locate import resolve_model
from rag_cluster.models.ports import Vectors
from rag_cluster.models.scorer import max_sim


class ColbertScorer:
    """A late-interaction checkpoint of a folder, package or hub id; the score is its MaxSim.

    Raises ModelError for another kind of model: one would be given a projection of random numbers.
    """

    def __init__(self, model: str, batch_size: int = 32) -> None:
        folder = resolve_model(model)
        if not _is_trained_for_it(Path(folder)):
            raise ModelError(
                f"{model!r} was not trained for late interaction (no ColBERT, PyLate or "
                "MultiVectorEncoder checkpoint): for the token vectors of any encoder use "
                "rerank.kind late_interaction"
            )
        device = choose_device("auto")
        dtype = choose_dtype("auto", device)
        self._model = load_transformer("MultiVectorEncoder", folder, device, dtype)
        self._batch_size = batch_size
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [len(texts)]."""
        if not texts:
            return np.zeros(0, dtype=np.float32)
        options = {"show_progress_bar": False, "convert_to_numpy": True}
        with self._lock:
            (asked,) = self._model.encode_query([query], **options)
            passages = self._model.encode_document(
                list(texts), batch_size=self._batch_size, **options
            )
        return np.array([max_sim(asked, passage) for passage in passages], dtype=np.float32)


def _is_trained_for_it(folder: Path) -> bool:
    """Whether the folder says of itself that it holds a late-interaction model."""
    settings = _read(folder / "config_sentence_transformers.json")
    architectures = _read(folder / "config.json").get("architectures") or []
    return (
        settings.get("model_type") in ("ColBERT", "MultiVectorEncoder")
        or "HF_ColBERT" in architectures
        or any(str(name).endswith("ForRetrieval") for name in architectures)
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        tree = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return tree if isinstance(tree, dict) else {}
