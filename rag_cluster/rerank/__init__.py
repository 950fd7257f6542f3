"""HITS -> HITS: candidates in a new order, by models that read query and passage together."""

from rag_cluster.rerank.order import Cascaded, Reranker, Stage, Step, cascade
from rag_cluster.rerank.scored import ByScore

__all__ = ["ByScore", "Cascaded", "Reranker", "Stage", "Step", "cascade"]
