"""What a run has to do: the sources as they are, against what is published or already finished.

A file is unchanged when its store says the same of its content (`etag`: size and time of a local
file, the store's own tag in an object store) and the parser's settings are the same; it is not
read. A document is unchanged when its content hash is the same; it is not chunked or embedded, if
the settings that made its chunks are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from rag_cluster.hashes import Hashes
from rag_cluster.schema import part_name
from rag_cluster.work import document_keys, file_digest

# Reasons that lie in the place and not in the file: it is tried again though it did not change.
PASSING = frozenset({"cannot be read"})
# Another document has this one's id; when that one goes, this one's turn has come.
WAITING = "duplicate id"


Name = tuple[str, str | None]  # a file's uri, and its part


@dataclass(frozen=True)
class Known:
    """What is known of a file that was read before."""

    etag: str | None
    parse: str | None
    documents: int  # how many it gave
    here: int = 0  # how many of them are there
    failed: frozenset[str] = field(default_factory=frozenset)  # reasons

    def holds(self, etag: str | None, parse: str) -> bool:
        """Whether all that a file of this etag would give with this parser is there."""
        same = etag is not None and (etag, parse) == (self.etag, self.parse)
        return same and self.here == self.documents


@dataclass(frozen=True)
class Changes:
    """The work of a run.

    `files` are the FILE rows to parse. `moved` are the content hashes of documents whose file is
    not among the sources any more: it may have got another name. `gone` are digests of the files of
    which the published version's documents do not stay, `listed` those of all files of the sources,
    `done` the keys of documents that need no chunking. With `restore` the documents that stay are
    chunked again from their stored text.
    """

    files: pa.Table
    moved: frozenset[str]
    gone: Hashes
    listed: Hashes
    done: Hashes
    restore: bool
    removed_files: int


def find_changes(
    listing: pa.Table,
    before: pa.Table,
    finished: pa.Table,
    parse: str,
    *,
    fits: bool,
    sync: bool = False,
    retry_failed: bool = False,
) -> Changes:
    """The work that the listing (FILE rows) makes.

    `before` and `finished` are the documents (columns `work.IDENTITY`) of the published version and
    of an interrupted run; `parse` is the fingerprint of the parser. `fits` says that the published
    chunks and vectors were made with the settings of this run. With `sync` files that are not
    listed are gone, with `retry_failed` files with failed documents are read again.
    """
    old, ended = known_files(before), known_files(finished)
    names, etags = file_names(listing), listing.column("etag").to_pylist()
    read: list[int] = []
    gone: set[Name] = set()
    for row, (name, etag) in enumerate(zip(names, etags, strict=True)):
        known = old.get(name)
        if known is not None and known.holds(etag, parse) and not _again(known, retry_failed):
            continue
        gone.add(name)
        half = ended.get(name)
        if half is None or not half.holds(etag, parse) or _again(half, retry_failed):
            read.append(row)
    if gone or (sync and set(old) - set(names)):
        for row, name in enumerate(names):
            if name not in gone and WAITING in old[name].failed:
                gone.add(name)
                read.append(row)
    listed = set(names)
    uris = set(listing.column("uri").to_pylist())
    left = [name for name in old if name not in listed]
    # A file that grew is cut into other parts than before.
    recut = {name for name in left if name[0] in uris}
    removed = set(left) - recut if sync else set()
    going = gone | recut | removed
    staying = document_keys(before) if fits else []
    new = any(names[row] not in old for row in read)
    return Changes(
        files=listing.take(pa.array(sorted(read), pa.int64())),
        moved=_contents(before, set(left) - recut) if new and fits else frozenset(),
        gone=Hashes.of(file_digest(*name) for name in going),
        listed=Hashes.of(file_digest(*name) for name in names),
        done=Hashes.of([*staying, *document_keys(finished)]),
        restore=not fits and any(name not in going for name in old),
        removed_files=len(removed),
    )


def file_names(listing: pa.Table) -> list[Name]:
    """The name of each FILE row."""
    columns = (listing.column(name).to_pylist() for name in ("uri", "part_start", "part_end"))
    return [(uri, part_name(start, end)) for uri, start, end in zip(*columns, strict=True)]


def current_contents(listing: pa.Table) -> Hashes:
    """Digests of all files and parts as they are now, for `work.are_current`."""
    etags = listing.column("etag").to_pylist()
    pairs = zip(file_names(listing), etags, strict=True)
    return Hashes.of(file_digest(*name, etag) for name, etag in pairs)


def known_files(documents: pa.Table) -> dict[Name, Known]:
    """What documents (columns `work.IDENTITY`) tell of the files that they came from."""
    found: dict[Name, Known] = {}
    counted: set[tuple[str, str]] = set()
    names = ("doc_id", "uri", "status", "error", "source")
    rows = zip(*(documents.column(name).to_pylist() for name in names), strict=True)
    for doc_id, uri, status, error, source in rows:
        if not source or source["file"] is None:
            continue
        name = (source["file"], source["part"])
        known = found.get(name) or Known(source["etag"], source["parse"], source["documents"])
        fresh = (doc_id, uri) not in counted
        counted.add((doc_id, uri))
        reasons = known.failed | {error} if status == "failed" and error else known.failed
        found[name] = Known(known.etag, known.parse, known.documents, known.here + fresh, reasons)
    return found


def _contents(documents: pa.Table, files: set[Name]) -> frozenset[str]:
    """The content hashes of the documents of these files."""
    sources = [source or {} for source in documents.column("source").to_pylist()]
    names = [(source.get("file"), source.get("part")) for source in sources]
    contents: list[str] = documents.column("content_hash").to_pylist()
    return frozenset(
        content for name, content in zip(names, contents, strict=True) if name in files
    )


def failed_uris(documents: pa.Table) -> list[str]:
    """The uris of the files that failed documents came from, each once, in order."""
    failed = documents.filter(pc.equal(documents.column("status"), "failed"))
    sources: list[Mapping[str, str] | None] = failed.column("source").to_pylist()
    return sorted({source["file"] for source in sources if source and source["file"]})


def _again(known: Known, retry_failed: bool) -> bool:  # noqa: FBT001 - private
    return bool(known.failed if retry_failed else known.failed & PASSING)
