"""The files of a collection, on disk or in an object store: names, tables, bytes, checksums.

A file appears whole or not at all. On disk it is written beside its place and renamed; for a store
it is written to a temporary folder of this machine and uploaded, as a store shows an object only
when it is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rag_cluster.errors import CollectionError
from rag_cluster.storage.places import is_local, key, reason, refusals, remote

_BLOCK = 1 << 20


def shard_name(shard: int) -> str:
    """The stem of a shard's files."""
    return f"shard-{shard:05d}"


def read_table(path: Path, **options: Any) -> pa.Table:
    """A Parquet file; `options` are those of `pyarrow.parquet.read_table`."""
    if is_local(path):
        return pq.read_table(path, **options)
    return pq.read_table(key(path), filesystem=remote(path), **options)


def row_groups(path: Path) -> int:
    """The number of row groups of a Parquet file."""
    with path.open("rb") as file:
        count: int = pq.ParquetFile(file).num_row_groups
    return count


def rows_of_groups(path: Path) -> list[int]:
    """The number of rows of each row group of a Parquet file."""
    with path.open("rb") as file:
        metadata = pq.ParquetFile(file).metadata
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def column_names(path: Path) -> list[str]:
    """The names of the columns of a Parquet file."""
    with path.open("rb") as file:
        names: list[str] = pq.ParquetFile(file).schema_arrow.names
    return names


def read_row_group(path: Path, group: int, columns: list[str] | None = None) -> pa.Table:
    """One row group of a Parquet file; all columns, or those named."""
    with path.open("rb") as file:
        return pq.ParquetFile(file).read_row_group(group, columns=columns)


def read_shard(path: Path, **options: Any) -> pa.Table:
    """A shard's Parquet file. Raises CollectionError where it is absent or damaged."""
    try:
        return read_table(path, **options)
    except refusals(pa.ArrowInvalid) as error:
        raise CollectionError(
            f"{path} cannot be read: {error}. Go back to another version ('rag-cluster versions' "
            "lists them), or ingest all sources into a new collection"
        ) from None


def write_table(table: pa.Table, path: Path, **options: Any) -> None:
    """Writes a Parquet file, whole or not at all; `options` as in `pyarrow.parquet.write_table`.

    Compressed with zstd unless `options` say otherwise. Folders above it are made.
    """
    options = {"compression": "zstd", **options}
    write_file(path, lambda temporary: pq.write_table(table, temporary, **options))


def write_file(path: Path, write: Callable[[Path], object]) -> None:
    """Has `write` make a local file or folder, and puts it at `path`, replacing what is there.

    A file appears whole or not at all; a folder so on disk, and file by file in a store. Folders
    above it are made. Raises OSError, also where a store refuses.
    """
    if is_local(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{time.monotonic_ns()}")
        try:
            write(temporary)
            if temporary.is_dir() and path.is_dir():
                shutil.rmtree(path)
            temporary.replace(path)
        except BaseException:
            remove(temporary)
            raise
        return
    with tempfile.TemporaryDirectory(prefix="rag-cluster-") as folder:
        made = Path(folder) / path.name
        write(made)
        _upload(made, path)


def _upload(made: Path, path: Path) -> None:
    sources = sorted(p for p in made.rglob("*") if p.is_file()) if made.is_dir() else [made]
    targets = [path / p.relative_to(made).as_posix() if p != made else path for p in sources]
    try:
        for source, target in zip(sources, targets, strict=True):
            remote(path).put_file(str(source), key(target))
    except OSError:
        raise
    except refusals() as error:
        raise OSError(f"cannot write {path}: {reason(error)}") from None


def write_text(path: Path, text: str) -> None:
    """Writes a small file so that a reader, and the disk after a crash, has all of it or none."""
    if not is_local(path):
        remote(path).pipe_file(key(path), text.encode())
        return
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


def make_folder(path: Path) -> None:
    """Makes a folder and those above it; an object store has no folders, and needs none."""
    if is_local(path):
        path.mkdir(parents=True, exist_ok=True)


def remove(path: Path) -> None:
    """Removes a file or a folder with all in it, if it is there; what refuses to go stays."""
    if not is_local(path):
        with contextlib.suppress(FileNotFoundError):
            remote(path).rm(key(path), recursive=True)
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def folders(path: Path) -> list[str]:
    """The names of the folders in a folder, in order; none where it is absent."""
    if is_local(path):
        return sorted(p.name for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
    try:
        found = remote(path).ls(key(path), detail=True)
    except FileNotFoundError:
        return []
    return sorted(e["name"].rstrip("/").rpartition("/")[2] for e in found
                  if e["type"] == "directory")  # fmt: skip


def files_in(path: Path, suffix: str = "") -> list[Path]:
    """The files directly in a folder whose names end so and begin with no dot, in order.

    None where the folder is absent.
    """
    found = [p for p, _ in sizes(path) if p.parent == path]
    return [p for p in found if p.name.endswith(suffix) and not p.name.startswith(".")]


def sizes(path: Path) -> Iterator[tuple[Path, int]]:
    """All files under a folder (or the file itself), in order, each with its bytes."""
    if is_local(path):
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file():
                yield file, file.stat().st_size
        return
    own = key(path)
    for name, entry in sorted(remote(path).find(own, detail=True).items()):
        within = name.removeprefix(own).lstrip("/")
        yield (path / within if within else path), int(entry["size"])


def checksum(path: Path) -> str:
    """BLAKE2b (128 bits) of a file's bytes, hexadecimal."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def file_entries(folder: Path, paths: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Size and checksum of files (folders: all in them), by their path relative to `folder`.

    In a store they are read back, so the manifest says what the store holds.
    """
    root = key_of(folder)
    return {
        key_of(file).removeprefix(root).lstrip("/"): {"bytes": size, "blake2b": checksum(file)}
        for path in paths
        for file, size in sizes(path)
    }


def key_of(path: Path) -> str:
    """The path's name with forward slashes, on disk and in a store alike."""
    return path.as_posix() if is_local(path) else key(path)
