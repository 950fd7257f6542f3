"""CHUNK -> VECTOR: a vector for each searchable chunk, of its own text or of the text around it."""

from rag_cluster.embed.dense import Claim, Embedder
from rag_cluster.embed.late import LateEmbedder, check_late

__all__ = ["Claim", "Embedder", "LateEmbedder", "check_late"]
