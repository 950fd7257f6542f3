"""The parse stage: FILE -> DOCUMENT, each file in a child process with limits."""

from __future__ import annotations

import stat
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa

from rag_cluster.config import Config, Parse, fingerprint
from rag_cluster.fields import find_unfit
from rag_cluster.parse.formats import PARSER_VERSION
from rag_cluster.parse.isolate import CRASHED, OUT_OF_MEMORY, Isolated
from rag_cluster.parse.parsed import ParseError
from rag_cluster.parse.rows import Row, failed_row, make_row
from rag_cluster.schema import DOCUMENT, FILE, part_name, rows_to_table
from rag_cluster.storage.places import is_remote_url, reason, refusals

# Another version of these may make another text of the same file.
LIBRARIES = ("pymupdf", "pymupdf4llm", "trafilatura", "lxml", "python-docx", "markdown-it-py")


def parser_fingerprint(config: Config) -> str:
    """What names the settings and libraries that documents were made with.

    Limits are left out: they do not change a document.
    """
    limits = {"timeout_s", "memory_mb", "record_part_mb", "retries"}
    kept = config.parse.model_dump(mode="json", exclude=limits)
    if config.metadata.mismatch == "fail":
        kept["fields"] = sorted(config.metadata.fields.items())
    libraries = [f"{name} {metadata.version(name)}" for name in LIBRARIES]
    settings = [f"{name}={value}" for name, value in kept.items()]
    return fingerprint(str(PARSER_VERSION), *settings, *libraries)


class Parser:
    """Parses files; keeps one child process for all of them and starts it anew when it fails.

    What is wrong with one file is a row with status "failed"; the other files are not touched.
    """

    takes = FILE
    gives = DOCUMENT

    def __init__(self, config: Config) -> None:
        self._config = config.parse
        self._metadata = config.metadata
        self._fingerprint = parser_fingerprint(config)
        self._child = Isolated(config.parse.timeout_s, config.parse.memory_mb)

    def __call__(self, table: pa.Table) -> pa.Table:
        """DOCUMENT rows of the FILE rows, in their order."""
        rows: list[dict[str, Any]] = []
        for file in table.select(["uri", "etag", "part_start", "part_end"]).to_pylist():
            found = self._rows(file["uri"], file["part_start"], file["part_end"])
            source = {
                "file": file["uri"],
                "part": part_name(file["part_start"], file["part_end"]),
                "etag": file["etag"],
                "parse": self._fingerprint,
                # A line that stands twice in a file is one document.
                "documents": len({(row["doc_id"], row["content_hash"]) for row in found}),
            }
            rows.extend(self._checked(row) | {"source": source} for row in found)
        return rows_to_table(rows, DOCUMENT)

    def close(self) -> None:
        """End the child process; the next call starts another."""
        self._child.close()

    def _checked(self, row: Row) -> Row:
        """The row, or a failed one where its metadata must fit the declared fields and does not."""
        if self._metadata.mismatch == "drop":
            return row
        unfit = find_unfit(row["metadata"], self._metadata.fields)
        if not unfit or row["status"] == "failed":
            return row
        kinds = self._metadata.fields
        detail = "; ".join(
            f"{name}: {value!r} is no {kinds[name]}" for name, value in unfit.items()
        )
        kept = {name: row[name] for name in ("doc_id", "media_type", "content_hash")}
        return failed_row(row["uri"], "metadata of another type", detail) | kept

    def _rows(self, uri: str, start: int | None, end: int | None) -> list[dict[str, Any]]:
        tries = 0
        while True:
            tries += 1
            try:
                rows = self._child.call(parse_source, uri, start, end, self._config)
                if rows or start is not None:
                    return rows
                return [make_row(uri, b"", status="empty", error="no records")]
            except ParseError as error:
                failure = error
            if failure.reason not in (CRASHED, OUT_OF_MEMORY) or tries > self._config.retries:
                break
        # The parts of a file fail one by one, so each has its own uri.
        name = uri if start is None else f"{uri}#part-{start}"
        said = [failure.detail] if failure.detail else []
        said += [f"tried {tries} times"] if tries > 1 else []
        return [failed_row(name, failure.reason, "; ".join(said) or None)]


def parse_source(
    uri: str, start: int | None, end: int | None, config: Parse
) -> list[dict[str, Any]]:
    """The rows of a file, or of its part [start, end). Runs in the child process.

    Raises ParseError("cannot be read") where the file is gone or may not be read.
    """
    from rag_cluster.parse.formats import parse_file
    from rag_cluster.parse.sources import path_of

    path = path_of(uri)
    try:
        if start is None or end is None:
            return parse_file(_read(path), uri, config)
        from rag_cluster.parse.records import parse_part

        return parse_part(path, uri, start, end, config)
    except refusals() as error:
        raise ParseError("cannot be read", reason(error)) from None


def _read(path: str) -> bytes:
    if is_remote_url(path):
        from rag_cluster.parse.objects import read_object

        return read_object(path)
    if not stat.S_ISREG(Path(path).stat().st_mode):
        raise ParseError("cannot be read", "not a regular file")
    return Path(path).read_bytes()
