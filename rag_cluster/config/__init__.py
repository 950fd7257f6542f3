"""One typed configuration: frozen, without unknown keys, every key with its comment.

`load()` reads YAML and `key.path=value` settings; `fingerprint()` names what a section made;
`render()` prints the effective tree with the comments.
"""

from rag_cluster.config.chunking import Chunk, Proposition, Semantic
from rag_cluster.config.guardrails import Guardrails
from rag_cluster.config.indexing import (
    PACKAGED_ENCODER,
    Dense,
    Elastic,
    Embed,
    Index,
    Lexical,
    Sparse,
)
from rag_cluster.config.loading import build, fingerprint, load, over, read_tree
from rag_cluster.config.rendering import render
from rag_cluster.config.search import (
    Rerank,
    RerankerKind,
    RerankStage,
    Retrieve,
    Transform,
    Weights,
)
from rag_cluster.config.section import Section
from rag_cluster.config.sections import (
    Answer,
    Config,
    Duplicates,
    Enrich,
    Generate,
    LanguageModel,
    Metadata,
    Parse,
    Resources,
)
from rag_cluster.config.service import Limits, QueryLog, Replicas, Service

__all__ = [
    "PACKAGED_ENCODER",
    "Answer",
    "Chunk",
    "Config",
    "Dense",
    "Duplicates",
    "Elastic",
    "Embed",
    "Enrich",
    "Generate",
    "Guardrails",
    "Index",
    "LanguageModel",
    "Lexical",
    "Limits",
    "Metadata",
    "Parse",
    "Proposition",
    "QueryLog",
    "Replicas",
    "Rerank",
    "RerankStage",
    "RerankerKind",
    "Resources",
    "Retrieve",
    "Section",
    "Semantic",
    "Service",
    "Sparse",
    "Transform",
    "Weights",
    "build",
    "fingerprint",
    "load",
    "over",
    "read_tree",
    "render",
]
