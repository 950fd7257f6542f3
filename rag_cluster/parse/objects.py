"""Sources in object stores: s3://bucket/prefix and whatever else fsspec can open.

The uri of an object is its url. Credentials are those of the store's own client: for S3 the AWS_*
variables of the environment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, Any, cast

from rag_cluster.errors import CollectionError, SourceError
from rag_cluster.parse.skip import (
    is_collection,
    is_evaluation_data,
    why_file_is_skipped,
    why_folder_is_skipped,
)
from rag_cluster.storage.places import file_system, reason, refusals


def list_objects(url: str, counts: Counter[str]) -> Iterator[dict[str, Any]]:
    """FILE rows (without parts) of the object at a url, or of all objects under it, in order.

    What a folder would not list is passed over and counted in `counts`. Raises SourceError where
    nothing is there or the store refuses, MissingExtraError where its client is not installed.
    """
    files, root = _open(url)
    try:
        found = {name.rstrip("/"): entry for name, entry in files.find(root, detail=True).items()
                 if not name.endswith("/")}  # fmt: skip
    except refusals() as error:
        raise SourceError(f"cannot list {url}: {reason(error)}") from None
    if not found:
        raise SourceError(f"no such object or prefix: {url}")
    if set(found) == {root.rstrip("/")}:
        names = list(found)
    else:
        names = sorted(_documents(found, root.rstrip("/"), counts))
    for name in names:
        entry = found[name]
        modified = _modified(entry)
        yield {
            "uri": str(files.unstrip_protocol(name)),
            "size": int(entry["size"]),
            "modified": modified,
            "etag": _etag(entry, modified),
        }


def open_object(url: str) -> IO[bytes]:
    """An object, read by ranges of bytes. Raises OSError or what `refusals()` lists."""
    files, path = _open(url)
    return cast("IO[bytes]", files.open(path, "rb"))


def read_object(url: str) -> bytes:
    """All bytes of an object. Raises OSError or what `refusals()` lists."""
    files, path = _open(url)
    return bytes(files.cat_file(path))


def _open(url: str) -> tuple[Any, str]:
    try:
        files = file_system(url)
    except CollectionError as error:
        raise SourceError(str(error)) from None
    return files, files._strip_protocol(url)  # noqa: SLF001 - url_to_fs would read "::" as a chain


def _documents(found: dict[str, dict[str, Any]], root: str, counts: Counter[str]) -> Iterator[str]:
    """The names that a walk through folders would give."""
    tree: dict[str, set[str]] = defaultdict(set)
    below: dict[str, set[str]] = defaultdict(set)
    for name in found:
        folder, _, last = name.rpartition("/")
        tree[folder].add(last)
        while len(folder) > len(root):
            above, _, last = folder.rpartition("/")
            below[above].add(last)
            folder = above
    return _walk(root, tree, below, counts)


def _walk(
    folder: str, tree: dict[str, set[str]], below: dict[str, set[str]], counts: Counter[str]
) -> Iterator[str]:
    names, folders = tree[folder], below[folder]
    if is_collection(folders, names):
        counts["collection"] += 1
        return
    if is_evaluation_data(folders, names):
        counts["evaluation data"] += len(names) - 1
        names, folders = {"corpus.jsonl"}, set()
    for name in names:
        why = why_file_is_skipped(name)
        if why is None:
            yield f"{folder}/{name}"
        else:
            counts[why] += 1
    for name in folders:
        why = why_folder_is_skipped(name)
        if why is None:
            yield from _walk(f"{folder}/{name}", tree, below, counts)
        else:
            counts[why] += 1


def _modified(entry: dict[str, Any]) -> datetime | None:
    for name in ("LastModified", "mtime", "updated", "last_modified", "created"):
        value = entry.get(name)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str):
            return datetime.fromisoformat(value)
    return None


def _etag(entry: dict[str, Any], modified: datetime | None) -> str:
    own = entry.get("ETag") or entry.get("etag")
    if own:
        return str(own).strip('"')
    return f"{modified.isoformat() if modified else ''}-{entry['size']:x}"
