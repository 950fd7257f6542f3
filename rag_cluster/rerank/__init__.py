"""HITS -> HITS: candidates in a new order, by models that read query and passage together."""

from rag_cluster.rerank.order import Cascaded, cascade, rerank

__all__ = ["Cascaded", "cascade", "rerank"]
