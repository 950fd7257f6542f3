"""The versions of a collection, with what they have on an Elasticsearch server."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from rag_cluster.config import Config
from rag_cluster.storage import place
from rag_cluster.storage import versions as storage
from rag_cluster.storage.collection import Collection


def listing(path: str | Path) -> dict[str, Any]:
    """{"report": "versions", "collection", "versions"}: see `storage.versions.list_versions`."""
    return {
        "report": "versions",
        "collection": str(path),
        "versions": storage.list_versions(path),
    }


def rollback(path: str | Path, version: str) -> dict[str, Any]:
    """Makes a version the current one; returns {"collection", "version", "before"}.

    The alias of its Elasticsearch index follows. Raises CollectionError where the version is not
    there or damaged, ServiceError where the server does not answer: nothing has changed then.
    """
    opened = Collection.open(path, version)
    if _is_on_server(opened.manifest):
        from rag_cluster.index import elastic

        elastic.publish(*_target(opened))
    return storage.roll_back(path, version)


def prune(path: str | Path, keep: int) -> dict[str, Any]:
    """Deletes all versions but the newest `keep` and the current one, and their indexes.

    Returns {"collection", "kept", "deleted", "bytes"}. Raises UsageError for `keep` below 1,
    CollectionError, or ServiceError where an index cannot be deleted: its version stays then.
    """
    return storage.prune(path, keep, on_delete=functools.partial(_delete_index, place(path)))


def _delete_index(path: Path, manifest: dict[str, Any]) -> None:
    if _is_on_server(manifest):
        from rag_cluster.index import elastic

        elastic.delete(*_target(Collection(path, manifest["version"], manifest)))


def _is_on_server(manifest: dict[str, Any]) -> bool:
    return bool(manifest.get("lexical", {}).get("kind") == "elasticsearch")


def _target(version: Collection) -> tuple[Any, Config]:
    from rag_cluster.index.elastic_client import located

    config = version.config
    return located(version.manifest, config.index.lexical.elastic), config
