"""A collection on disk: its layout, its versions, and how one is published.

    <collection>/
      CURRENT                     the published version's name; replaced atomically, last
      LOCK                        held by the one writer; says who and since when
      versions/<version>/
        manifest.json             what made it, and what is in it
        documents/ chunks/ vectors/ dense/ lexical/     one shard-NNNNN file (or folder) each
      work/<run>/                 what a running ingest has finished

A version is immutable. Readers see the old version or the new one, never half of one: everything
is written beside the published version, and renaming one small file publishes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import getpass
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rag_cluster.errors import CollectionError
from rag_cluster.schema import Passage

FORMAT = 1

PASSAGE_COLUMNS = [
    "chunk_id", "doc_id", "uri", "title", "page_first", "page_last", "section_path", "kind",
    "parent_id", "ordinal", "start", "end", "header", "text",
]  # fmt: skip


def shard_name(shard: int) -> str:
    """The stem of a shard's files."""
    return f"shard-{shard:05d}"


class ChunkStore:
    """The chunks of a version in one order that does not depend on the number of shards.

    Rows are ordered by (searchable first, doc_id, ordinal); a tie between two scores goes to the
    lower row. `rows[shard]` gives for each row of a shard's own table its row here.
    """

    def __init__(self, shards: Sequence[pa.Table]) -> None:
        table = pa.concat_tables(shards).combine_chunks()
        order = np.arange(table.num_rows, dtype=np.int64)
        if len(shards) > 1:
            keys = [("searchable", "descending"), ("doc_id", "ascending"), ("ordinal", "ascending")]
            order = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
            table = table.take(pa.array(order)).combine_chunks()
        self.table = table
        self.searchable = int(pc.sum(table.column("searchable")).as_py() or 0)
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        ends = np.cumsum([shard.num_rows for shard in shards])[:-1]
        self.rows: list[NDArray[np.int64]] = np.split(inverse, ends)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def passages(self, rows: NDArray[np.int64], scores: NDArray[np.floating]) -> list[Passage]:
        """The rows as passages, ranked from 1 in the order given."""
        taken = self.table.select(PASSAGE_COLUMNS).take(pa.array(rows)).to_pylist()
        return [
            _passage(row, rank, float(score))
            for rank, (row, score) in enumerate(zip(taken, scores, strict=True), 1)
        ]

    def passage(self, row: int, score: float = 0.0, rank: int = 1) -> Passage:
        """One row as a passage."""
        found = self.table.select(PASSAGE_COLUMNS).slice(row, 1).to_pylist()[0]
        return _passage(found, rank, score)

    def row_of(self, chunk_id: str) -> int:
        """The row of a chunk. Raises KeyError."""
        return self._rows[chunk_id]

    def parent(self, row: int) -> int | None:
        """The row of the section that a fragment is a part of."""
        parent = self._value("parent_id", row)
        return None if parent is None else self._parents.get(parent)

    def neighbours(self, row: int, n: int) -> list[int]:
        """The rows of up to `n` chunks before and `n` after, in order, within the same section."""
        home = self._section(row)
        before: list[int] = []
        after: list[int] = []
        for found, steps in (
            (before, range(row - 1, max(0, row - n) - 1, -1)),
            (after, range(row + 1, min(self.searchable, row + n + 1))),
        ):
            for other in steps:
                if self._section(other) != home:
                    break
                found.append(other)
        return [*reversed(before), *after]

    def _value(self, column: str, row: int) -> Any:
        return self.table.column(column)[row].as_py()

    def _section(self, row: int) -> tuple[str, str | None, str]:
        return (
            self._value("doc_id", row),
            self._value("parent_id", row),
            self._value("section_path", row),
        )

    @functools.cached_property
    def _rows(self) -> dict[str, int]:
        return {chunk: row for row, chunk in enumerate(self.table.column("chunk_id").to_pylist())}

    @functools.cached_property
    def _parents(self) -> dict[str, int]:
        chunk_ids = self.table.column("chunk_id").slice(self.searchable).to_pylist()
        return {chunk: row for row, chunk in enumerate(chunk_ids, self.searchable)}


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


def read_shard(path: Path, **options: Any) -> pa.Table:
    """A shard's Parquet file. Raises CollectionError where it is absent or damaged."""
    try:
        return pq.read_table(path, **options)
    except (OSError, pa.ArrowInvalid) as error:
        raise CollectionError(f"{path} cannot be read, ingest again: {error}") from None


def current_version(path: Path) -> str | None:
    """The name of the published version, or None where there is no collection."""
    try:
        return (path / "CURRENT").read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise CollectionError(f"cannot read {path / 'CURRENT'}: {error}") from None


class Writer:
    """Writes one new version. Use as a context: it holds the collection's lock.

    `folder` takes the version's files and `work` what is on the way; `publish()` makes the version
    the current one. Leaving the context without it removes what was written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self.version = ""

    def __enter__(self) -> Self:
        with _mapped(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(self.path)
            try:
                self._prepare()
            except BaseException:
                self._lock.close()
                raise
        return self

    def _prepare(self) -> None:
        _sweep(self.path)
        self.version = _next_version(self.path)
        self.folder = self.path / "versions" / self.version
        self.work = self.path / "work" / self.version
        self.folder.mkdir(parents=True)
        self.work.mkdir(parents=True)

    def __exit__(self, *_: object) -> None:
        try:
            shutil.rmtree(self.work, ignore_errors=True)
            if current_version(self.path) != self.version:
                shutil.rmtree(self.folder, ignore_errors=True)
        finally:
            self._lock.close()

    def publish(self, manifest: dict[str, Any]) -> None:
        """Writes the manifest, then names this version the current one, atomically."""
        with _mapped(self.path):
            text = json.dumps(manifest, ensure_ascii=False, indent=2, sort_keys=True)
            _write_atomically(self.folder / "manifest.json", text + "\n")
            _write_atomically(self.path / "CURRENT", self.version + "\n")


def checksum(path: Path) -> str:
    """BLAKE2b (128 bits) of a file's bytes, hexadecimal."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def file_entries(folder: Path, paths: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Size and checksum of files (folders: all in them), by their path relative to `folder`."""
    files = [
        file
        for path in paths
        for file in (sorted(path.rglob("*")) if path.is_dir() else [path])
        if file.is_file()
    ]
    return {
        file.relative_to(folder).as_posix(): {
            "bytes": file.stat().st_size,
            "blake2b": checksum(file),
        }
        for file in files
    }


def _passage(row: dict[str, Any], rank: int, score: float) -> Passage:
    first, last = row["page_first"], row["page_last"]
    return Passage(
        rank=rank,
        score=score,
        chunk_id=row["chunk_id"],
        doc_id=row["doc_id"],
        uri=row["uri"],
        title=row["title"],
        pages=None if first is None else (first, last),
        section=row["section_path"],
        kind=row["kind"],
        parent_id=row["parent_id"],
        ordinal=row["ordinal"],
        start=row["start"],
        end=row["end"],
        header=row["header"],
        text=row["text"],
    )


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


def _next_version(path: Path) -> str:
    versions = path / "versions"
    taken = [int(p.name[1:]) for p in versions.glob("v*") if p.name[1:].isdigit()]
    return f"v{max(taken, default=0) + 1:06d}"


def _sweep(path: Path) -> None:
    """Removes what an interrupted writer left: its work, and versions without a manifest."""
    shutil.rmtree(path / "work", ignore_errors=True)
    for version in (path / "versions").glob("v*"):
        if not (version / "manifest.json").exists():
            shutil.rmtree(version, ignore_errors=True)


def _lock(path: Path) -> TextIO:
    """Locks the collection for writing; the operating system frees it when the process dies."""
    file = (path / "LOCK").open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "another process"
        file.close()
        raise CollectionError(
            f"{path} is being written by {holder}: wait for it, or end it"
        ) from None
    file.truncate(0)
    since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    file.write(f"{_user()} on {socket.gethostname()} (process {os.getpid()}, since {since})")
    file.flush()
    return file


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CollectionError(f"cannot write the collection {path}: {error}") from None
