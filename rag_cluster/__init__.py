"""Retrieval-augmented generation as a batch pipeline and a query service on a Ray cluster.

The data's way, room by room:

    FILE      -> parse    -> DOCUMENT          rag_cluster.parse
    DOCUMENT  -> chunk    -> CHUNK             rag_cluster.chunk
    CHUNK     -> enrich   -> CHUNK + context   rag_cluster.enrich
    CHUNK     -> embed    -> VECTOR            rag_cluster.embed
    VECTOR    -> index    -> a version         rag_cluster.index, rag_cluster.storage
    QUERY     -> retrieve -> HITS              rag_cluster.retrieve, rag_cluster.rerank
    HITS      -> answer   -> ANSWER            rag_cluster.answer
    QRELS     -> evaluate -> METRICS           rag_cluster.evaluate

The names below are the public ones; each is loaded when it is first used, so importing the package
is quick and needs neither Ray nor a model.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_cluster.answer.query import Answer, Engine, SearchResult
    from rag_cluster.config import Config, load
    from rag_cluster.errors import RagClusterError
    from rag_cluster.evaluate.collection import evaluate_collection
    from rag_cluster.pipeline import ingest
    from rag_cluster.storage import Collection

_HOMES = {
    "Config": "rag_cluster.config",
    "load": "rag_cluster.config",
    "ingest": "rag_cluster.pipeline",
    "Collection": "rag_cluster.storage",
    "Engine": "rag_cluster.answer.query",
    "SearchResult": "rag_cluster.answer.query",
    "Answer": "rag_cluster.answer.query",
    "evaluate_collection": "rag_cluster.evaluate.collection",
    "RagClusterError": "rag_cluster.errors",
}

__all__ = [
    "Answer",
    "Collection",
    "Config",
    "Engine",
    "RagClusterError",
    "SearchResult",
    "evaluate_collection",
    "ingest",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
