"""Local copies of remote files, for what can only be opened (or mapped into memory) from disk.

    $RAG_CLUSTER_CACHE or ~/.cache/rag-cluster/<folder's uri>/<file's name>-<what it holds>

Names are digests; a copy is named after the sizes and checksums of what it holds, so it is never
out of date. It is downloaded beside its place, verified and renamed: any number of processes may
do so at once. The cache may be deleted whenever no process uses it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rag_cluster.errors import CollectionError
from rag_cluster.storage.files import checksum, key_of, remove, sizes
from rag_cluster.storage.places import is_local, key, reason, refusals, remote

Entry = Mapping[str, Any]  # {"bytes": int, "blake2b": str}


def cache_folder() -> Path:
    """Where local copies are kept."""
    named = os.environ.get("RAG_CLUSTER_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "rag-cluster"


def local_copy(path: Path, entries: Mapping[str, Entry] | None = None) -> Path:
    """A local path of a file or folder: itself on disk, else a verified copy, made once.

    `entries` are the manifest's sizes and checksums of the files by their path within `path` (""
    for a file itself); without them the sizes that the store lists have to do. Raises
    CollectionError where the file is absent, or differs from its entry.
    """
    if is_local(path):
        return path
    try:
        found = dict(entries) if entries is not None else _listed(path)
        if not found:
            raise CollectionError(f"{path} is missing")
        home = _home(path.parent)
        target = home / f"{_digest(path.name, found)}-{path.name}"
        if not _complete(target, found):
            home.mkdir(parents=True, exist_ok=True)
            _download(path, found, target)
    except refusals() as error:
        raise CollectionError(f"cannot copy {path} to {cache_folder()}: {reason(error)}") from None
    return target


def forget(folder: Path) -> None:
    """Removes the local copies of the indexes of a version's remote folder."""
    if not is_local(folder):
        for kind in ("dense", "lexical"):
            remove(_home(folder / kind))


def _home(folder: Path) -> Path:
    return cache_folder() / hashlib.blake2b(str(folder).encode(), digest_size=12).hexdigest()


def _digest(name: str, entries: Mapping[str, Entry]) -> str:
    text = json.dumps([name, {k: dict(v) for k, v in entries.items()}], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _listed(path: Path) -> dict[str, Entry]:
    """What the store says of the files: the size, and its own mark of their content."""
    root = key_of(path)
    return {
        key_of(file).removeprefix(root).lstrip("/"): {
            "bytes": size,
            "mark": remote(path).ukey(key(file)),
        }
        for file, size in sizes(path)
    }


def _complete(target: Path, entries: Mapping[str, Entry]) -> bool:
    """Whether a copy is there; it was verified when it was made, so only sizes are looked at."""
    try:
        return all(
            (target / name if name else target).stat().st_size == entry["bytes"]
            for name, entry in entries.items()
        )
    except OSError:
        return False


def _download(path: Path, entries: Mapping[str, Entry], target: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix=".", dir=target.parent))
    try:
        made = folder / path.name
        for name, entry in entries.items():
            copy = made / name if name else made
            copy.parent.mkdir(parents=True, exist_ok=True)
            source = path / name if name else path
            remote(path).get_file(key(source), str(copy))
            _verify(source, copy, entry)
        try:
            made.replace(target)
        except OSError:
            if not _complete(target, entries):  # else another process was quicker
                remove(target)
                made.replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _verify(source: Path, copy: Path, entry: Entry) -> None:
    size = copy.stat().st_size
    if size != entry["bytes"]:
        raise CollectionError(f"{source} has {size:,} bytes and not {entry['bytes']:,}")
    if "blake2b" in entry and checksum(copy) != entry["blake2b"]:
        raise CollectionError(f"{source} differs from its checksum in the manifest")
