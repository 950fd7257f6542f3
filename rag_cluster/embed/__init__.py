"""CHUNK -> VECTOR: a vector for each searchable chunk, of its own text or of the text around it."""

from rag_cluster.embed.dense import Claim, Embedder
from rag_cluster.embed.late import LateEmbedder, check_late
from rag_cluster.embed.sparse import SparseEmbedder

__all__ = ["Claim", "Embedder", "LateEmbedder", "SparseEmbedder", "check_late"]
