"""What there is to parse: files, folders and objects in stores to a FILE table.

The uri of a local file is its absolute path, that of an object its url. A path that is not valid
UTF-8 is written as a percent-encoded `file:` uri, so that it can stand in a table and still be
opened.
"""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote_to_bytes

import pyarrow as pa

from rag_cluster.config import Config
from rag_cluster.errors import SourceError
from rag_cluster.parse.objects import list_objects, open_object
from rag_cluster.parse.skip import (
    is_collection,
    is_evaluation_data,
    why_file_is_skipped,
    why_folder_is_skipped,
)
from rag_cluster.parse.sniff import sniff
from rag_cluster.schema import FILE, rows_to_table
from rag_cluster.storage.places import is_remote_url, refusals

_MIB = 1024 * 1024
_HEAD = 65_536
_ESCAPED = "file://"
_SKIPPED = b"skipped"


def list_files(sources: Sequence[str], config: Config) -> pa.Table:
    """FILE rows of all files under the sources, each once, sorted by uri, local ones first.

    A large file of records (JSONL, Parquet) is listed in parts. Hidden files, what an operating
    system leaves behind, and a collection's own folder are not listed but counted: see `skipped()`.
    Raises SourceError where a source is absent, a folder or store cannot be read, or nothing was
    found, and MissingExtraError where the client of a store is not installed.
    """
    counts: Counter[str] = Counter()
    paths: dict[bytes, None] = {}
    objects: dict[str, dict[str, Any]] = {}
    seen: set[tuple[int, int]] = set()
    for source in sources:
        if is_remote_url(source):
            objects.update((row["uri"], row) for row in list_objects(source, counts))
        else:
            files = _files_of(source, counts, seen)
            paths.update(dict.fromkeys(os.fsencode(path) for path in files))
    if not paths and not objects:
        raise SourceError(_nothing_found(sources, counts))
    rows = [row for path in sorted(paths) for row in _rows(os.fsdecode(path), config)]
    rows += [row for uri in sorted(objects) for row in _in_parts(objects[uri], uri, config)]
    table = rows_to_table(rows, FILE)
    return table.replace_schema_metadata({_SKIPPED: json.dumps(dict(sorted(counts.items())))})


def skipped(files: pa.Table) -> dict[str, int]:
    """How many files of each kind `list_files()` passed over, such as {"hidden": 3}."""
    counts: dict[str, int] = json.loads((files.schema.metadata or {}).get(_SKIPPED, b"{}"))
    return counts


def uri_of(path: str) -> str:
    """The uri of an absolute local path."""
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return _ESCAPED + quote(os.fsencode(path))
    return path


def path_of(uri: str) -> str:
    """The local path of a uri."""
    if uri.startswith(_ESCAPED):
        return os.fsdecode(unquote_to_bytes(uri.removeprefix(_ESCAPED)))
    return uri


def open_bytes(path: str) -> IO[bytes]:
    """A local file or a remote object, for reading. Raises OSError or what `refusals()` lists."""
    return open_object(path) if is_remote_url(path) else open(path, "rb")  # noqa: PTH123


def _files_of(source: str, counts: Counter[str], seen: set[tuple[int, int]]) -> Iterator[str]:
    path = os.path.abspath(os.path.expanduser(path_of(source)))  # noqa: PTH100, PTH111 - bytes-safe
    if os.path.isdir(path):  # noqa: PTH112
        yield from _walk(path, counts, seen)
    elif os.path.lexists(path):
        yield path
    else:
        raise SourceError(f"no such file or folder: {source!r} (looked for {path})")


def _walk(root: str, counts: Counter[str], seen: set[tuple[int, int]]) -> Iterator[str]:
    """Files under a folder; links to folders are followed, and no folder is read twice."""
    for folder, folders, names in os.walk(root, followlinks=True, onerror=_unreadable):
        folders.sort()  # which of two ways to a folder counts does not depend on the disk's order
        status = Path(folder).stat()
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            counts["folder seen before"] += 1
            continue
        seen.add((status.st_dev, status.st_ino))
        if is_collection(set(folders), set(names)):
            folders.clear()
            counts["collection"] += 1
            continue
        if is_evaluation_data(set(folders), set(names)):
            counts["evaluation data"] += len(names) - 1
            folders.clear()
            names[:] = ["corpus.jsonl"]
        for name in list(folders):
            if reason := why_folder_is_skipped(name):
                folders.remove(name)
                counts[reason] += 1
        for name in names:
            reason = why_file_is_skipped(name)
            if reason is None:
                yield os.path.join(folder, name)  # noqa: PTH118 - thousands of times slower with Path
            else:
                counts[reason] += 1


def _unreadable(error: OSError) -> None:
    raise SourceError(f"cannot read the folder {error.filename}: {error.strerror}") from None


def _nothing_found(sources: Sequence[str], counts: Counter[str]) -> str:
    looked = ", ".join(repr(source) for source in sources) or "no source at all"
    passed = ", ".join(f"{number} {reason}" for reason, number in sorted(counts.items()))
    return f"no file to ingest in {looked}" + (f" (passed over: {passed})" if passed else "")


def _rows(path: str, config: Config) -> Iterator[dict[str, Any]]:
    row: dict[str, Any] = {"uri": uri_of(path), "size": 0}
    try:
        status = Path(path).stat()
    except OSError:
        yield row  # a dangling link: the parse stage says that it cannot be read
        return
    row["size"] = status.st_size
    row["modified"] = datetime.fromtimestamp(status.st_mtime_ns // 1000 / 1e6, UTC)
    row["etag"] = f"{status.st_mtime_ns:x}-{status.st_size:x}"
    if not stat.S_ISREG(status.st_mode):
        yield row
        return
    yield from _in_parts(row, path, config)


def _in_parts(row: dict[str, Any], path: str, config: Config) -> Iterator[dict[str, Any]]:
    for start, end in _parts(path, row["size"], config.parse.record_part_mb * _MIB):
        yield {**row, "part_start": start, "part_end": end}


def _parts(path: str, size: int, part_size: int) -> list[tuple[int | None, int | None]]:
    """Where a file of records is cut: at bytes of a JSONL, at row groups of a Parquet."""
    if size <= part_size:
        return [(None, None)]
    try:
        with open_bytes(path) as file:
            head = file.read(_HEAD)
        kind = sniff(head, path).kind
        # A part begins after a byte \n, which is half a character in UTF-16.
        if kind == "jsonl" and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
            return [(start, min(start + part_size, size)) for start in range(0, size, part_size)]
        if kind == "parquet":
            return _row_group_parts(path, part_size)
    except refusals():
        pass  # the parse stage says how
    return [(None, None)]


def _row_group_parts(path: str, part_size: int) -> list[tuple[int | None, int | None]]:
    import pyarrow.parquet as pq

    try:
        with open_bytes(path) as file:
            metadata = pq.read_metadata(file if is_remote_url(path) else path)
    except pa.ArrowException:
        return [(None, None)]  # damaged: the parse stage says how
    parts: list[tuple[int | None, int | None]] = []
    first, filled = 0, 0
    for group in range(metadata.num_row_groups):
        filled += metadata.row_group(group).total_byte_size
        if filled >= part_size or group == metadata.num_row_groups - 1:
            parts.append((first, group + 1))
            first, filled = group + 1, 0
    return parts or [(None, None)]
