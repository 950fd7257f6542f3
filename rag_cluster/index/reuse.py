"""Vectors that exist already: of equal texts in this run, and in the published version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_cluster.hashes import Hashes, Words, as_words
from rag_cluster.schema import conform
from rag_cluster.storage.files import column_names, read_shard
from rag_cluster.work import PLACE, place_hashes


@dataclass(frozen=True)
class Places:
    """For each of some text hashes the file and the row where its vector stands."""

    words: Words  # uint64 [n, 2]
    file: NDArray[np.int32]
    row: NDArray[np.int64]
    files: tuple[Path, ...]

    @classmethod
    def none(cls) -> Places:
        """No place at all."""
        return cls(np.empty((0, 2), np.uint64), np.empty(0, np.int32), np.empty(0, np.int64), ())

    @classmethod
    def merged(cls, parts: Sequence[Places]) -> Places:
        """The places of all parts; of equal hashes the first one's is found."""
        files: list[Path] = []
        numbers = [np.empty(0, np.int32)]
        for part in parts:
            numbers.append((part.file + len(files)).astype(np.int32))
            files.extend(part.files)
        none = cls.none()
        return cls(
            np.concatenate([none.words, *(part.words for part in parts)]),
            np.concatenate(numbers),
            np.concatenate([none.row, *(part.row for part in parts)]),
            tuple(files),
        )

    def take(self, words: Words, columns: Sequence[str]) -> tuple[pa.Table, NDArray[np.bool_]]:
        """Columns of the hashes' rows, in their order, and whether each was found (null if not)."""
        at = Hashes(self.words).find(words)
        place = np.full(len(words), -1, np.int64)
        tables: list[pa.Table] = []
        read = 0
        for number in np.unique(self.file[at[at >= 0]]):
            mine = np.flatnonzero((at >= 0) & (self.file[at] == number))
            table = read_shard(self.files[number], columns=list(columns))
            tables.append(table.take(pa.array(self.row[at[mine]])))
            place[mine] = read + np.arange(len(mine))
            read += len(mine)
        table = pa.concat_tables(tables).combine_chunks() if tables else pa.table({})
        return table.take(pa.array(place, mask=place < 0)), place >= 0


class Moved:
    """The texts that were encoded for chunks, by what they were cut from: content and span.

    A file that has another name keeps its vectors so, though the name stands in its chunks' texts.
    """

    def __init__(self, places: Words, texts: Words) -> None:
        """`places` and `texts` are hashes, uint64 [n, 2]; row by row they belong together."""
        self._places = Hashes(places)
        self._texts = texts

    def find(self, places: Words) -> tuple[NDArray[np.bool_], Words]:
        """Whether each place is known, and the hash of its text (zeros where it is not)."""
        at = self._places.find(places)
        texts = np.zeros((len(places), 2), np.uint64)
        texts[at >= 0] = self._texts[at[at >= 0]]
        return at >= 0, texts


def moved_texts(shards: Sequence[tuple[Path, Path]], contents: frozenset[str]) -> Moved:
    """The texts of chunks with these content hashes, of files (chunks, vectors) of shards."""
    places: list[bytes] = []
    texts: list[bytes] = []
    for chunks, vectors in shards if contents else ():
        hashes = read_shard(vectors, columns=["text_hash"])
        # The searchable chunks come first, in the order of their vectors.
        rows = read_shard(chunks, columns=PLACE).slice(0, hashes.num_rows)
        held = np.flatnonzero([one in contents for one in rows["content_hash"].to_pylist()])
        places += place_hashes(rows.take(pa.array(held)))
        texts += hashes["text_hash"].take(pa.array(held)).to_pylist()
    return Moved(as_words(places), as_words(texts))


def find_wanted(parts: Sequence[Path]) -> Words:
    """The hashes of the texts whose vector is to be taken from elsewhere; uint64 [n, 2]."""
    found = [
        table.filter(table.column("reused")).column("text_hash").to_pylist()
        for table in (read_shard(path, columns=["text_hash", "reused"]) for path in parts)
    ]
    return np.unique(as_words([one for part in found for one in part]), axis=0)


def rows_of(parts: Sequence[Path], wanted: Words, schema: pa.Schema) -> pa.Table:
    """The rows (the schema's columns) of parts that reuse a vector of these hashes.

    All of them: rows of one hash may have different texts, if their file had another name.
    """
    left = Hashes(wanted)
    found = [schema.empty_table()]
    for path in parts:
        table = read_shard(path, columns=[*schema.names, "text_hash", "reused"])
        table = table.filter(table.column("reused"))
        held = left.holds(as_words(table.column("text_hash").to_pylist()))
        found.append(conform(table.filter(pa.array(held)), schema))
    return pa.concat_tables(found)


def held_hashes(paths: Sequence[Path]) -> Words:
    """The hashes of the texts that have a vector in files of vectors or of parts."""
    return _held(paths)[0]


def locate(paths: Sequence[Path], wanted: Words) -> Places:
    """Where the vectors of the wanted hashes stand in files of vectors or of parts."""
    words, file, row = _held(paths)
    kept = Hashes(wanted).holds(words)
    return Places(words[kept], file[kept], row[kept], tuple(paths))


def _held(paths: Sequence[Path]) -> tuple[Words, NDArray[np.int32], NDArray[np.int64]]:
    words, numbers, rows = [np.empty((0, 2), np.uint64)], [np.empty(0, np.int32)], []
    for number, path in enumerate(paths):
        table = read_shard(path, columns=_hash_columns(path))
        has = pc.is_valid(table.column("text_hash"))
        if "reused" in table.column_names:
            has = pc.and_(has, pc.invert(pc.fill_null(table.column("reused"), True)))  # noqa: FBT003
        places = np.flatnonzero(has.to_numpy())
        hashes = table.column("text_hash").take(pa.array(places)).to_pylist()
        words.append(as_words(hashes))
        numbers.append(np.full(len(places), number, np.int32))
        rows.append(places.astype(np.int64))
    return (
        np.concatenate(words),
        np.concatenate(numbers),
        np.concatenate([np.empty(0, np.int64), *rows]),
    )


def _hash_columns(path: Path) -> list[str]:
    # Parts of chunks know rows without a vector; files of vectors have none.
    return [name for name in ("text_hash", "reused") if name in column_names(path)]
