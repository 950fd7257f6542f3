"""Files of records, one document each: JSONL and Parquet with an id, a title and a text field."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from rag_cluster.config import Parse
from rag_cluster.parse.clean import clean, one_line, scrub
from rag_cluster.parse.parsed import ParseError
from rag_cluster.parse.rows import Row, dump_metadata, failed_row, make_row
from rag_cluster.parse.sections import build_sections
from rag_cluster.parse.sniff import MEDIA_TYPES, decode
from rag_cluster.parse.sources import open_bytes
from rag_cluster.schema import document_id
from rag_cluster.storage.places import is_remote_url

VERSION = 1
_BLOCK = 8 * 1024 * 1024
_MALFORMED = "malformed record"


def parse_jsonl(data: bytes, uri: str, config: Parse) -> list[Row]:
    """The rows of a whole JSONL file, one for each line that is not blank.

    A malformed line is a failed row whose detail has the line's number, from 1.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        data = decode(data).encode("utf-8", "surrogatepass")
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [
        _json_row(line, uri, config, partial(int, number))
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]


def parse_parquet(data: bytes, uri: str, config: Parse) -> list[Row]:
    """The rows of a whole Parquet file. Raises ParseError("damaged")."""
    return _parquet_rows(io.BytesIO(data), uri, config, 0, None)


def parse_part(path: str, uri: str, start: int, end: int, config: Parse) -> list[Row]:
    """The rows of a part of a file, or of an object in a store.

    That is the lines of a JSONL that begin at a byte in [start, end), or the row groups
    [start, end) of a Parquet file. Line numbers are those of the whole file. Raises OSError, or
    ParseError("damaged").
    """
    with open_bytes(path) as file:
        if file.read(4) == b"PAR1":
            source = file if is_remote_url(path) else path
            return _parquet_rows(source, uri, config, start, end)
    # Numbers are seldom needed, and to count the lines before costs a read of them.
    lines_before = cache(partial(_count_lines, path, start))
    return [
        _json_row(line, uri, config, lambda within=within: lines_before() + within)  # type: ignore[misc]
        for within, line in enumerate(_lines(path, start, end), start=1)
        if line.strip()
    ]


def _lines(path: str, start: int, end: int) -> Iterator[bytes]:
    with open_bytes(path) as file:
        if start > 0:
            file.seek(start - 1)
            file.readline()  # up to the first line that begins at `start` or later
        while file.tell() < end:
            line = file.readline()
            if not line:
                return
            yield line.removeprefix(b"\xef\xbb\xbf") if start == 0 else line


def _count_lines(path: str, start: int) -> int:
    """Lines that begin before the first line of the part at `start`."""
    if start == 0:
        return 0
    count, left, last = 0, start, b"\n"
    with open_bytes(path) as file:
        while left > 0:
            block = file.read(min(_BLOCK, left))
            if not block:
                break
            count += block.count(b"\n")
            left -= len(block)
            last = block[-1:]
    return count if last == b"\n" else count + 1


def _json_row(line: bytes, uri: str, config: Parse, number: Callable[[], int]) -> Row:
    """The row of a line of JSON; `number()` is the line's number, asked for only where needed."""
    line = line.strip()
    problem: str | None = None
    record: Any = None
    try:
        record = json.loads(_as_utf8(line))
    except (ValueError, RecursionError) as error:
        problem = str(error)
    if problem is None and not isinstance(record, dict):
        problem = f"it holds a {type(record).__name__}, not an object"
    if problem is not None:
        place = number()
        return failed_row(f"{uri}#line-{place}", _MALFORMED, f"line {place}: {problem}", line)
    return _record_row(record, line, uri, config, "jsonl", lambda: f"line-{number()}")


def _record_row(
    record: dict[str, Any],
    data: bytes,
    uri: str,
    config: Parse,
    kind: str,
    place: Callable[[], str],
) -> Row:
    value = record.get(config.record_id)
    own_id = "" if value is None else scrub(str(value)).strip()
    name = own_id or place()
    row_uri = f"{uri}#{name}"
    text = _as_text(record.get(config.record_text))
    if config.record_text not in record or text is None:
        fields = ", ".join(sorted(record)) or "none"
        state = "holds an object" if text is None else f"is absent; there are: {fields}"
        detail = f"{name}: the field {config.record_text!r} (parse.record_text) {state}"
        return failed_row(row_uri, "record without text", detail, data)
    title = one_line(_as_text(record.get(config.record_title)) or "")
    text = clean(text).strip() or title
    named = {config.record_id, config.record_text, config.record_title}
    return make_row(
        row_uri,
        data,
        doc_id=document_id(own_id or row_uri),
        media_type=MEDIA_TYPES[kind],
        title=title,  # an id would only stand in the way of the words
        text=text,
        sections=build_sections(text, [], title),
        metadata=dump_metadata({k: v for k, v in record.items() if k not in named}),
        parser=f"{kind}/{VERSION}",
        status="ok" if text else "empty",
        error=None if text else "no text",
    )


def _as_utf8(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return decode(line)


def _as_text(value: Any) -> str | None:
    """A field's value as text; None for an object."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return None
    if isinstance(value, list | tuple):
        return "\n\n".join(part for part in (_as_text(item) for item in value) if part)
    return str(value)


def _parquet_rows(
    source: str | IO[bytes], uri: str, config: Parse, start: int, end: int | None
) -> list[Row]:
    rows: list[Row] = []
    try:
        file = pq.ParquetFile(source)
        groups = range(start, file.num_row_groups if end is None else end)
        number = sum(file.metadata.row_group(group).num_rows for group in range(start))
        for batch in file.iter_batches(batch_size=1024, row_groups=list(groups)):
            for record in batch.to_pylist():
                number += 1
                data = json.dumps(record, default=str, sort_keys=True).encode()
                place = partial(str.format, "row-{}", number)
                rows.append(_record_row(record, data, uri, config, "parquet", place))
    except (pa.ArrowException, OSError) as error:
        raise ParseError("damaged", f"{type(error).__name__}: {error}") from None
    return rows
