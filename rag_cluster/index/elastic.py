"""The bm25 channel on Elasticsearch or OpenSearch: one index per version, behind an alias.

    check -> create -> load_shard (in many tasks) -> finish -> publish       at ingest
    delete, sweep                                                            when versions go

Searching is in elastic_search.

A version's manifest names its own index, and searches use that name. So a reader stays with the
version it opened, and the alias, for readers outside this program, may lag without harm.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection as Container
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import elasticsearch
import pyarrow as pa
from elasticsearch.helpers import streaming_bulk

from rag_cluster.config import Config, Lexical
from rag_cluster.errors import ConfigError, IngestError
from rag_cluster.index.elastic_client import (
    BUSY,
    Target,
    cause,
    connect,
    explained,
    located,
    server_url,
)
from rag_cluster.index.elastic_mapping import actions, index_body
from rag_cluster.schema import make_id

CONFLICT = 409
EXAMPLES = 3


def target_of(config: Lexical, collection: str | Path, version: str) -> Target:
    """Where the index of a version goes. Raises ConfigError where no server is named."""
    identity = make_id("collection", str(collection))
    slug = re.sub(r"[^a-z0-9]+", "-", Path(collection).name.lower()).strip("-")[:60]
    alias = config.elastic.index or f"rag-{slug or 'collection'}-{identity[:8]}"
    url = server_url(config.elastic.url)
    return Target(url, config.elastic.api, f"{alias}-{version.lower()}", alias, identity)


def check(config: Config) -> None:
    """Whether the server answers and accepts the credentials; before any work begins.

    Raises ConfigError or ServiceError.
    """
    url = server_url(config.index.lexical.elastic.url)
    with _client(url, config, "Elasticsearch") as client:
        client.info()


def create(target: Target, config: Config) -> None:
    """An empty index that is ready to be loaded: no refresh, no replicas.

    What an interrupted run left under its name goes. Raises ConfigError where the index belongs to
    another collection, ServiceError where the server does not take it.
    """
    sparse = config.sparse.model is not None
    body = index_body(target, config.index.lexical, config.metadata.fields, sparse=sparse)
    with _client(target.url, config, f"creating index {target.index}") as client:
        before = client.indices.get(index=target.index, ignore_unavailable=True).body
        for name, found in before.items():
            if _owner(found) != target.collection:
                raise ConfigError(
                    f"index {name} at {target.url} is there and is not of this collection: set "
                    "index.lexical.elastic.index to a name of its own"
                )
            client.indices.delete(index=name)
        client.indices.create(index=target.index, **body)


def load_shard(target: Target, chunks: pa.Table, config: Config) -> int:
    """Indexes the searchable chunks of a table (CHUNK with the declared fields); gives their count.

    Where there are sparse vectors, the table has their columns too. Items that a busy server turned
    away (429), whole requests that it refused, and lost connections are sent again; a chunk that is
    there already counts as done. Raises IngestError with the reasons where the server refused
    chunks.
    """
    elastic = config.index.lexical.elastic
    rows = chunks.filter(chunks.column("searchable"))
    refused: Counter[str] = Counter()
    examples: list[str] = []
    with _client(target.url, config, f"loading index {target.index}") as client:
        answers = streaming_bulk(
            # Status 429 is left to the helper, which sends only the items that were turned away.
            client.options(retry_on_status=BUSY),
            actions(rows, config.metadata.fields),
            index=target.index,
            chunk_size=elastic.bulk_chunks,
            max_chunk_bytes=elastic.bulk_mb * 2**20,
            max_retries=elastic.retries,
            initial_backoff=elastic.backoff_s,
            max_backoff=elastic.max_backoff_s,
            raise_on_error=False,
        )
        for done, answer in answers:
            item = next(iter(answer.values()))
            if done or item["status"] == CONFLICT:
                continue
            error = item.get("error")
            refused[error["type"] if isinstance(error, dict) else str(item["status"])] += 1
            if len(examples) < EXAMPLES:
                examples.append(f"chunk {item['_id']}: {cause(error)}")
    if refused:
        kinds = ", ".join(f"{count} {kind}" for kind, count in refused.most_common())
        raise IngestError(
            f"index {target.index} at {target.url} refused {refused.total()} of {rows.num_rows} "
            f"chunks ({kinds}); {'; '.join(examples)}"
        )
    return int(rows.num_rows)


def finish(target: Target, config: Config, chunks: int) -> None:
    """Restores replicas and refresh, and checks that the index holds so many chunks.

    Raises IngestError where it does not.
    """
    elastic = config.index.lexical.elastic
    restored = {
        "number_of_replicas": elastic.replicas,
        "refresh_interval": elastic.refresh_interval,
    }
    with _client(target.url, config, f"finishing index {target.index}") as client:
        client.indices.put_settings(index=target.index, settings={"index": restored})
        client.indices.refresh(index=target.index)
        found = client.count(index=target.index)["count"]
    if found != chunks:
        raise IngestError(
            f"index {target.index} at {target.url} holds {found} chunks instead of {chunks}: "
            "something else wrote to it; ingest again"
        )


def publish(target: Target, config: Config) -> None:
    """Points the alias to this version's index, and to no other, in one step."""
    with _client(target.url, config, f"moving alias {target.alias}") as client:
        moves = [
            {"remove": {"index": name, "alias": target.alias}}
            for name in _indexes_of(client, target.alias)
            if name != target.index
        ]
        moves.append({"add": {"index": target.index, "alias": target.alias}})
        client.indices.update_aliases(actions=moves)


def count_documents(manifest: Mapping[str, Any], config: Config, doc_ids: Sequence[str]) -> int:
    """How many chunks of these documents the index of a version holds."""
    target = located(manifest, config.index.lexical.elastic)
    count = 0
    with _client(target.url, config, f"counting in index {target.index}") as client:
        for start in range(0, len(doc_ids), 1000):
            terms = {"terms": {"doc_id": list(doc_ids[start : start + 1000])}}
            count += client.count(index=target.index, query=terms)["count"]
    return count


def delete(target: Target, config: Config) -> None:
    """Removes a version's index; one that is not there is no error."""
    with _client(target.url, config, f"deleting index {target.index}") as client:
        client.indices.delete(index=target.index, ignore_unavailable=True)


def sweep(target: Target, config: Config, keep: Container[str]) -> list[str]:
    """Removes this collection's indexes that are not in `keep`, and names them.

    Left behind are those of runs that were killed, and of versions whose folder was removed.
    """
    with _client(target.url, config, f"listing indexes {target.alias}-*") as client:
        found = client.indices.get(index=f"{target.alias}-*", ignore_unavailable=True).body
        stale = [
            name
            for name, index in found.items()
            if _owner(index) == target.collection and name not in keep
        ]
        for name in stale:
            client.indices.delete(index=name, ignore_unavailable=True)
    return sorted(stale)


@contextmanager
def _client(url: str, config: Config, doing: str) -> Iterator[Any]:
    client = connect(url, config.index.lexical.elastic)
    try:
        with explained(url, doing):
            yield client
    finally:
        client.close()


def _owner(index: Mapping[str, Any]) -> str | None:
    """The collection that an index says it belongs to."""
    owner: str | None = index.get("mappings", {}).get("_meta", {}).get("collection")
    return owner


def _indexes_of(client: Any, alias: str) -> list[str]:
    try:
        return list(client.indices.get_alias(name=alias).body)
    except elasticsearch.NotFoundError:
        return []
