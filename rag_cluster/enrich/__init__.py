"""CHUNK -> CHUNK with `context`: what stands in front of a chunk when it is indexed."""

from rag_cluster.enrich.stage import Enricher

__all__ = ["Enricher"]
