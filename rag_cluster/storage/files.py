"""The files of a collection: their names, their bytes, their checksums."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rag_cluster.errors import CollectionError


def shard_name(shard: int) -> str:
    """The stem of a shard's files."""
    return f"shard-{shard:05d}"


def read_shard(path: Path, **options: Any) -> pa.Table:
    """A shard's Parquet file. Raises CollectionError where it is absent or damaged."""
    try:
        return pq.read_table(path, **options)
    except (OSError, pa.ArrowInvalid) as error:
        raise CollectionError(f"{path} cannot be read, ingest again: {error}") from None


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


def write_text(path: Path, text: str) -> None:
    """Writes a small file so that a reader, and the disk after a crash, has all of it or none."""
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
