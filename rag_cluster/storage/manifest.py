"""A version's manifest: what made it, and what is in it, with a checksum of its own."""

from __future__ import annotations

import hashlib
import json
from importlib import metadata
from pathlib import Path
from typing import Any

from rag_cluster import config as configuration
from rag_cluster.config import Config
from rag_cluster.errors import CollectionError, ConfigError
from rag_cluster.storage.files import write_text
from rag_cluster.storage.places import reason, refusals

FORMAT = 2
NAME = "manifest.json"


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a version's folder; None where there is none.

    Raises CollectionError where it is damaged, or written by another version of the program.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / NAME).read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise CollectionError(f"the manifest of {folder} cannot be read: {error}") from None
    except refusals() as error:
        raise CollectionError(f"the manifest of {folder} cannot be read: {reason(error)}") from None
    if not isinstance(manifest, dict):
        raise CollectionError(f"the manifest of {folder} cannot be read: it is no JSON object")
    if manifest.get("format", 0) > FORMAT:
        raise CollectionError(
            f"{folder} was written by a newer version of rag-cluster (layout "
            f"{manifest['format']}, this one reads {FORMAT}): upgrade rag-cluster"
        )
    if manifest.get("format", 0) < FORMAT:
        raise CollectionError(
            f"{folder} was written by an older version of rag-cluster (layout "
            f"{manifest.get('format', 0)}, this one reads {FORMAT}): ingest into a new collection"
        )
    if manifest.get("checksum", "") not in ("", _checksum(manifest)):
        raise CollectionError(f"the manifest of {folder} differs from its own checksum")
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Writes a manifest with its checksum, atomically."""
    signed = {**manifest, "checksum": _checksum(manifest)}
    text = json.dumps(signed, ensure_ascii=False, indent=2, sort_keys=True)
    write_text(folder / NAME, text + "\n")


def config_of(folder: Path, manifest: dict[str, Any]) -> Config:
    """The configuration that made the version in a folder.

    Raises CollectionError where this version of the program has not all of its keys and values.
    """
    try:
        return configuration.build(manifest["config"])
    except ConfigError as error:
        made = manifest.get("libraries", {}).get("rag-cluster")
        own = metadata.version("rag-cluster")
        which = f" ({made}, this is {own})" if made not in (None, own) else ""
        raise CollectionError(
            f"{folder} was made by another version of rag-cluster{which}, with settings that this "
            f"one does not have: {error}. Use the version that made it, or bring it to this one "
            "with your own settings: 'rag-cluster ingest SOURCE... --collection "
            f"{folder.parent.parent} --config FILE'"
        ) from None


def file_entries_of(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The sizes and checksums of all files of a version, by their path in its folder."""
    return {
        name: entry
        for shard in manifest.get("shards", [])
        for name, entry in shard.get("files", {}).items()
    }


def _checksum(manifest: dict[str, Any]) -> str:
    rest = {name: value for name, value in manifest.items() if name != "checksum"}
    text = json.dumps(rest, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
