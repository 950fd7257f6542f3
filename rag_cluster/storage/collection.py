"""One version of a collection, opened for reading."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_cluster.config import Config
from rag_cluster.errors import CollectionError
from rag_cluster.storage.cache import local_copy
from rag_cluster.storage.chunks import ChunkStore
from rag_cluster.storage.files import checksum, key_of, read_shard, shard_name, sizes
from rag_cluster.storage.manifest import config_of, file_entries_of, read_manifest
from rag_cluster.storage.places import is_local, place, reason, refusals
from rag_cluster.storage.versions import folder_of, open_version

SMALL = 1 << 20


class Collection:
    """One version of a collection, opened for reading."""

    def __init__(self, path: Path, version: str, manifest: dict[str, Any]) -> None:
        self.path = path
        self.version = version
        self.folder = folder_of(path, version)
        self.manifest = manifest

    @classmethod
    def open(
        cls, path: str | Path, version: str | None = None, *, verify: bool = True
    ) -> Collection:
        """The published version, or the one named.

        Raises CollectionError where it is absent or damaged: the sizes of all its files are looked
        at, and the checksums of small ones (under 1 MiB; in an object store, when one is copied).
        `verify=False` leaves that to who wants to report it.
        """
        path = place(path)
        opened = cls(path, *open_version(path, version))
        if verify:
            opened.verify()
        return opened

    @functools.cached_property
    def config(self) -> Config:
        """The configuration that made the version.

        Raises CollectionError where another version of rag-cluster made it, with other keys.
        """
        return config_of(self.folder, self.manifest)

    def is_replaced(self) -> bool:
        """Whether what lies in the version's folder now is another, or cannot be read."""
        try:
            now = read_manifest(self.folder)
        except CollectionError:
            return True
        return now is None or now.get("checksum") != self.manifest.get("checksum")

    def verify(self) -> None:
        """Raises CollectionError with the first file that is not what the manifest says."""
        for name, problem in self.problems(small_only=True):
            raise CollectionError(
                f"{self.folder / name} {problem}: go back to another version ('rag-cluster "
                f"versions --collection {self.path}' lists them), or ingest all sources into a new "
                "collection"
            )

    def problems(self, *, small_only: bool = False) -> Iterator[tuple[str, str]]:
        """The files that are not what the manifest says, each with what is wrong with it.

        With `small_only` checksums are compared only of files under 1 MiB on disk. Raises
        CollectionError where the store cannot be read.
        """
        try:
            there = {self._name(file): size for file, size in sizes(self.folder)}
            for name, entry in file_entries_of(self.manifest).items():
                if name not in there:
                    yield name, "is missing"
                elif there[name] != entry["bytes"]:
                    yield name, f"has {there[name]:,} bytes and not {entry['bytes']:,}"
                elif (
                    not small_only or (entry["bytes"] < SMALL and is_local(self.folder))
                ) and checksum(self.folder / name) != entry["blake2b"]:
                    yield name, "differs from its checksum"
        except refusals() as error:
            raise CollectionError(f"{self.folder} cannot be read: {reason(error)}") from None

    def _name(self, file: Path) -> str:
        return key_of(file).removeprefix(key_of(self.folder)).lstrip("/")

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
        suffix = {"dense": ".faiss", "lexical": "", "sparse": ""}.get(kind, ".parquet")
        return self.folder / kind / (shard_name(shard) + suffix)

    def files_of(self, kind: str) -> list[Path]:
        """The shards' files of a kind; some kinds not every version, or every shard, has."""
        paths = [self.shard_path(kind, shard) for shard in range(self.shards)]
        there = file_entries_of(self.manifest)
        return [path for path in paths if f"{kind}/{path.name}" in there]

    def local_path(self, kind: str, shard: int) -> Path:
        """A shard's file (or folder) on this machine's disk: a verified copy of a remote one."""
        path = self.shard_path(kind, shard)
        if is_local(path):
            return path
        own = f"{kind}/{path.name}"
        return local_copy(
            path,
            {
                name.removeprefix(own).lstrip("/"): entry
                for name, entry in self.manifest["shards"][shard]["files"].items()
                if name == own or name.startswith(f"{own}/")
            },
        )

    def all_chunks(self, shard: int, columns: Sequence[str] | None = None) -> pa.Table:
        """A shard's chunks, and after them those that are left out of the index."""
        wanted = None if columns is None else list(columns)
        path = self.shard_path("chunks", shard)
        tables = [read_shard(path, columns=wanted)]
        if f"left_out/{path.name}" in file_entries_of(self.manifest):
            out = read_shard(self.shard_path("left_out", shard), columns=wanted)
            tables.append(out.select(tables[0].column_names))
        return pa.concat_tables(tables)

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
