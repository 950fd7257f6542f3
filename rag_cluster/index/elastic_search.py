"""Searching a version's index on Elasticsearch or OpenSearch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import elasticsearch
import numpy as np
from numpy.typing import NDArray

from rag_cluster.config import Config
from rag_cluster.errors import CollectionError
from rag_cluster.index.elastic_client import Target, connect, explained, located
from rag_cluster.index.elastic_mapping import MOST_HITS
from rag_cluster.index.elastic_query import ORDER, Query, search_query, sparse_query
from rag_cluster.index.filters import Filter
from rag_cluster.models.sparse import SparseVector

SEARCH_RETRIES = 2


class ElasticIndex:
    """A version's index, opened for searching. Safe to use from several threads."""

    def __init__(self, target: Target, client: Any, fields: Mapping[str, str]) -> None:
        self.target = target
        self._client = client
        self._fields = dict(fields)

    @classmethod
    def open(cls, manifest: Mapping[str, Any], config: Config) -> Self:
        """The index that a version's manifest names, where `located` finds it.

        Raises CollectionError where the index is absent or holds something else.
        """
        elastic = config.index.lexical.elastic
        target = located(manifest, elastic)
        patience = elastic.model_copy(update={"retries": min(elastic.retries, SEARCH_RETRIES)})
        index = cls(target, connect(target.url, patience), manifest["config"]["metadata"]["fields"])
        try:
            index.check(manifest["searchable"])
        except BaseException:
            index.close()
            raise
        return index

    def check(self, chunks: int) -> None:
        """Raises CollectionError where the index is absent or holds not so many chunks."""
        with self._explained():
            found = self._client.count(index=self.target.index)["count"]
        if found != chunks:
            raise CollectionError(
                f"index {self.target.index} at {self.target.url} holds {found} chunks, but the "
                f"collection has {chunks}: it is another collection's, or was changed; ingest again"
            )

    def search(
        self,
        query: str | Mapping[str, float],
        k: int,
        wanted: Filter | None = None,
        exclude_roles: Sequence[str] = (),
    ) -> tuple[list[str], NDArray[np.float64]]:
        """The ids and scores of the k best chunks: best first, ties by (doc_id, ordinal).

        `query` is a text, or texts with their weights. One request; k is at most MOST_HITS. Raises
        FilterError, CollectionError and ServiceError.
        """
        return self._search(search_query(query, wanted, exclude_roles, self._fields), k)

    def search_sparse(
        self,
        vector: SparseVector,
        k: int,
        wanted: Filter | None = None,
        exclude_roles: Sequence[str] = (),
    ) -> tuple[list[str], NDArray[np.float64]]:
        """The same by the inner product with a sparse vector."""
        if not len(vector.terms):
            return [], np.empty(0, np.float64)
        return self._search(sparse_query(vector, wanted, exclude_roles, self._fields), k)

    def _search(self, query: Query, k: int) -> tuple[list[str], NDArray[np.float64]]:
        with self._explained():
            hits = self._client.search(
                index=self.target.index,
                query=query,
                size=min(k, MOST_HITS),
                sort=ORDER,
                source=False,
                track_total_hits=False,
                # Statistics of the whole index, not of each of its shards.
                search_type="dfs_query_then_fetch",
                allow_partial_search_results=False,
            )["hits"]["hits"]
        scores = np.array([hit["_score"] for hit in hits], np.float64)
        return [hit["_id"] for hit in hits], scores

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        target = self.target
        with explained(target.url, f"searching index {target.index}"):
            try:
                yield
            except elasticsearch.NotFoundError:
                raise CollectionError(
                    f"index {target.index} is not at {target.url}: it was deleted, or this is not "
                    "the server that the collection was loaded to. Set index.lexical.elastic.url, "
                    "or ingest again"
                ) from None
