"""The versions of a collection: which there are, which one is current, going back, deleting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rag_cluster.errors import CollectionError, UsageError
from rag_cluster.storage import cache
from rag_cluster.storage.files import folders, remove, write_text
from rag_cluster.storage.lock import explained, locked
from rag_cluster.storage.manifest import NAME, file_entries_of, read_manifest
from rag_cluster.storage.places import is_local, key, place, reason, refusals, remote

CURRENT = "CURRENT"


def current_version(path: Path) -> str | None:
    """The name of the published version, or None where there is no collection."""
    try:
        return (path / CURRENT).read_text(encoding="utf-8").strip() or None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except refusals(UnicodeDecodeError) as error:
        raise CollectionError(f"cannot read {path / CURRENT}: {reason(error)}") from None


def folder_of(path: Path, version: str) -> Path:
    """Where a version's files lie."""
    return path / "versions" / version


def version_names(path: Path) -> list[str]:
    """The finished versions (those with a manifest), oldest first."""
    found = [name for name in _numbered(path) if (folder_of(path, name) / NAME).exists()]
    return sorted(found, key=lambda name: int(name[1:]))


def next_version(path: Path) -> str:
    """A name that no version has, finished or not."""
    return f"v{max((int(name[1:]) for name in _numbered(path)), default=0) + 1:06d}"


def sweep(path: Path) -> None:
    """Removes the versions without a manifest, which an interrupted writer left."""
    for name in _numbered(path):
        if not (folder_of(path, name) / NAME).exists():
            remove(folder_of(path, name))


def open_version(path: Path, version: str | None = None) -> tuple[str, dict[str, Any]]:
    """The name and manifest of the version named, or of the current one.

    Raises CollectionError: where there is none it names those that there are.
    """
    name = version or current_version(path)
    if name is None:
        raise CollectionError(
            f"there is no collection at {path}: make one with "
            f"'rag-cluster ingest SOURCE --collection {path}'"
        )
    manifest = read_manifest(folder_of(path, name)) if _is_name(name) else None
    if manifest is None:
        raise _absent(path, name, is_current=version is None)
    return name, manifest


def check_current(path: Path) -> None:
    """Raises CollectionError where CURRENT names a version that is not there or is damaged."""
    if current_version(path) is not None:
        open_version(path)


def list_versions(path: str | Path) -> list[dict[str, Any]]:
    """The finished versions, oldest first.

    Each as {"version", "created", "documents", "chunks", "bytes", "current", "problem"}; `problem`
    says what is wrong with its manifest, or is None. Raises CollectionError where there are none.
    """
    path = place(path)
    with explained(path):
        names, current = version_names(path), current_version(path)
    if not names:
        open_version(path)  # says what is wrong
    return [_describe(path, name) | {"current": name == current} for name in names]


def roll_back(path: str | Path, version: str) -> dict[str, Any]:
    """Makes a finished version the current one; returns {"collection", "version", "before"}.

    Raises CollectionError where it is not there, is damaged, or the collection is being written.
    """
    path = place(path)
    with explained(path):
        if not version_names(path):
            open_version(path)
        open_version(path, version)
    with locked(path) as lock:
        before = current_version(path)
        lock.check()
        write_text(path / CURRENT, version + "\n")
    return {"collection": str(path), "version": version, "before": before}


def prune(
    path: str | Path, keep: int, on_delete: Callable[[dict[str, Any]], None] | None = None
) -> dict[str, Any]:
    """Deletes all versions but the newest `keep` and the current one.

    `on_delete` is called with the manifest of each before its files go: what belongs to it
    elsewhere goes first, so that a failure leaves a version that can be pruned again. Returns
    {"collection", "kept", "deleted", "bytes"}. Raises UsageError, CollectionError.
    """
    if keep < 1:
        raise UsageError(f"--keep is {keep}: at least one version must be kept")
    path = place(path)
    with explained(path):
        open_version(path)
    deleted: list[str] = []
    freed = 0
    with locked(path):
        names = version_names(path)
        for name in names[:-keep]:
            if name == current_version(path):
                continue
            row = _describe(path, name)
            if on_delete is not None and row["problem"] is None:
                on_delete(open_version(path, name)[1])
            _delete(folder_of(path, name))
            deleted.append(name)
            freed += row["bytes"]
    kept = [name for name in names if name not in deleted]
    return {"collection": str(path), "kept": kept, "deleted": deleted, "bytes": freed}


def _delete(folder: Path) -> None:
    if is_local(folder):
        (folder / NAME).unlink()  # from here on it is no version; a rest is swept by the next run
    else:
        remote(folder).rm_file(key(folder / NAME))
    remove(folder)
    cache.forget(folder)


def _describe(path: Path, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "version": name, "created": None, "documents": None, "chunks": None, "bytes": 0,
        "problem": None,
    }  # fmt: skip
    try:
        _, manifest = open_version(path, name)
    except CollectionError as error:
        return row | {"problem": str(error)}
    return row | {
        "created": manifest.get("created"),
        "documents": manifest.get("documents_total"),
        "chunks": manifest.get("chunks"),
        "bytes": sum(entry["bytes"] for entry in file_entries_of(manifest).values()),
    }


def _numbered(path: Path) -> list[str]:
    return [name for name in folders(path / "versions") if _is_name(name)]


def _is_name(name: str) -> bool:
    return name[:1] == "v" and name[1:].isdigit()


def _absent(path: Path, name: str, *, is_current: bool) -> CollectionError:
    names = version_names(path)
    there = f"there are {', '.join(names)}" if names else "there is none"
    if not is_current:
        return CollectionError(f"version {name} is not in {path}: {there}")
    mend = (
        f"'rag-cluster rollback {names[-1]} --collection {path}' repairs it"
        if names
        else f"remove {path / CURRENT} and ingest again"
    )
    return CollectionError(f"{path / CURRENT} names {name}, which is not there; {there}: {mend}")
