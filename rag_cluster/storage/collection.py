"""One version of a collection, opened for reading."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_cluster.errors import CollectionError
from rag_cluster.storage.chunks import ChunkStore
from rag_cluster.storage.files import read_shard, shard_name

FORMAT = 1


class Collection:
    """One version of a collection, opened for reading."""

    def __init__(self, path: Path, version: str) -> None:
        self.path = path
        self.version = version
        self.folder = path / "versions" / version
        self.manifest = _read_manifest(self.folder)

    @classmethod
    def open(cls, path: str | Path, version: str | None = None) -> Collection:
        """The published version, or the one named. Raises CollectionError."""
        path = Path(path)
        name = version or current_version(path)
        if name is None:
            raise CollectionError(
                f"there is no collection at {path}: make one with "
                f"'rag-cluster ingest SOURCE --collection {path}'"
            )
        return cls(path, name)

    @property
    def shards(self) -> int:
        """The number of shards."""
        return len(self.manifest["shards"])

    @property
    def fields(self) -> dict[str, str]:
        """The declared metadata fields."""
        return dict(self.manifest["config"]["metadata"]["fields"])

    def shard_path(self, kind: str, shard: int) -> Path:
        """Where a shard's file (or folder) of a kind lies."""
        suffix = {"dense": ".faiss", "lexical": ""}.get(kind, ".parquet")
        return self.folder / kind / (shard_name(shard) + suffix)

    def chunks(self) -> ChunkStore:
        """All chunks, read into memory."""
        return ChunkStore([read_shard(self.shard_path("chunks", i)) for i in range(self.shards)])

    def documents(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The documents of all shards; name the columns, for `text` is large."""
        wanted = None if columns is None else list(columns)
        return pa.concat_tables(
            read_shard(self.shard_path("documents", i), columns=wanted) for i in range(self.shards)
        )

    def document(self, doc_id: str, columns: Sequence[str] | None = None) -> dict[str, Any] | None:
        """One document by its id, or None."""
        wanted = None if columns is None else list(columns)
        for shard in range(self.shards):
            found = read_shard(
                self.shard_path("documents", shard),
                columns=wanted,
                filters=[("doc_id", "=", doc_id)],
            )
            if found.num_rows:
                row: dict[str, Any] = found.to_pylist()[0]
                return row
        return None

    def find_documents(self, name: str) -> list[str]:
        """The ids of documents whose id, uri, record id or file's name is `name`."""
        table = self.documents(["doc_id", "uri"])
        exact = pc.or_(pc.equal(table["doc_id"], name), pc.equal(table["uri"], name))
        found = table.filter(exact)
        if not found.num_rows:
            ends = pc.or_(
                pc.ends_with(table["uri"], f"/{name}"), pc.ends_with(table["uri"], f"#{name}")
            )
            found = table.filter(ends)
        ids: list[str] = found.column("doc_id").to_pylist()
        return ids


def current_version(path: Path) -> str | None:
    """The name of the published version, or None where there is no collection."""
    try:
        return (path / "CURRENT").read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CollectionError(f"cannot read {path / 'CURRENT'}: {error}") from None


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text("utf-8"))
    except FileNotFoundError:
        raise CollectionError(f"version {folder.name} is not in {folder.parent.parent}") from None
    except (OSError, ValueError) as error:
        raise CollectionError(f"the manifest of {folder} cannot be read: {error}") from None
    if manifest.get("format", 0) > FORMAT:
        raise CollectionError(
            f"{folder} was written by a newer version of rag-cluster (layout "
            f"{manifest['format']}, this one reads up to {FORMAT}): upgrade rag-cluster"
        )
    return manifest
