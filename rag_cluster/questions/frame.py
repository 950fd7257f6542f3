"""The chunks that may be asked about: where they are and how they fall into strata, without texts.

A chunk takes some 30 bytes here, so a collection of a million is sampled in little memory. The
random keys are hashes of the seed and the chunk's id: the sample is the same however the collection
is divided into shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_cluster.errors import UsageError
from rag_cluster.hashes import Words, as_words, digest
from rag_cluster.storage import Collection, read_shard
from rag_cluster.storage.files import read_row_group, rows_of_groups

Row = dict[str, Any]
_COLUMNS = ["chunk_id", "doc_id", "kind", "searchable", "role", "tokens"]
NO_VALUE = "(none)"
_AT_ONCE = 100_000  # ids that are Python strings at a time


@dataclass(frozen=True)
class Frame:
    """n chunks of d documents in s strata (one where there is no field to divide by).

    `shard` and `row` (int32 [n]) say where a chunk stands, `key` (uint64 [n]) is its random key,
    `document` (int32 [n]) the place of its document in `document_key` (uint64 [d]) and `stratum`
    (int32 [d]), which points into `strata` and `stratum_key` (uint64 [s]). `chunks` counts all
    that a search returns, `left_out` those of them that may not be asked about, by reason.
    """

    shard: NDArray[np.int32]
    row: NDArray[np.int32]
    key: NDArray[np.uint64]
    document: NDArray[np.int32]
    document_key: NDArray[np.uint64]
    stratum: NDArray[np.int32]
    strata: list[str]
    stratum_key: NDArray[np.uint64]
    chunks: int
    left_out: Counter[str]

    def __len__(self) -> int:
        return len(self.key)


def read_frame(
    collection: Collection, *, seed: int, by: str | None, min_words: int, roles: Sequence[str]
) -> Frame:
    """The chunks that are searched and may be asked about.

    Left out are chunks of sections with one of the `roles`, of documents that nearly equal another,
    and of fewer than `min_words` tokens. Raises UsageError where `by` is no declared field.
    """
    if by is not None and by not in collection.fields:
        declared = ", ".join(collection.fields) or "none"
        raise UsageError(
            f"--by {by}: {collection.path} has no such metadata field (declared: {declared})"
        )
    total, left_out, numbers = 0, Counter[str](), dict[str, int]()
    columns = [*_COLUMNS, *([by] if by else [])]
    parts = []
    for shard in range(collection.shards):
        table = read_shard(collection.shard_path("chunks", shard), columns=columns)
        table = table.append_column("row", pa.array(np.arange(table.num_rows, dtype=np.int32)))
        table = table.filter(_standing(collection, shard, table))
        total += table.num_rows
        table = _askable(table, _copies(collection, shard), min_words, roles, left_out)
        parts.append(_part(table, seed, by, numbers))
    names = list(numbers) or [""]
    before = np.cumsum([0, *(len(part.document_key) for part in parts)]).tolist()
    return Frame(
        shard=np.repeat(np.arange(len(parts), dtype=np.int32), [len(part.row) for part in parts]),
        row=np.concatenate([part.row for part in parts]),
        key=np.concatenate([part.key for part in parts]),
        document=np.concatenate(
            [part.document + np.int32(n) for part, n in zip(parts, before, strict=False)]
        ),
        document_key=np.concatenate([part.document_key for part in parts]),
        stratum=np.concatenate([part.stratum for part in parts]),
        strata=names,
        stratum_key=_keys(seed, names),
        chunks=total,
        left_out=left_out,
    )


def _standing(collection: Collection, shard: int, table: pa.Table) -> pa.ChunkedArray:
    """Whether a chunk is what a search returns: bool [n].

    A fact is not, but the chunk that it was rewritten from; nor what only holds fragments together.
    """
    facts = pc.equal(table["kind"], "proposition")
    if not pc.any(facts).as_py():
        return table["searchable"]
    parents = read_shard(collection.shard_path("chunks", shard), columns=["parent_id"])["parent_id"]
    sources = pc.is_in(table["chunk_id"], value_set=parents.filter(facts).combine_chunks())
    return pc.or_(sources, pc.and_not(table["searchable"], facts))


def _copies(collection: Collection, shard: int) -> pa.Array:
    """The ids of a shard's documents that nearly equal another one."""
    path = collection.shard_path("documents", shard)
    table = read_shard(path, columns=["doc_id", "duplicate_of"])
    return table.filter(pc.is_valid(table["duplicate_of"]))["doc_id"].combine_chunks()


def _askable(
    table: pa.Table, copies: pa.Array, min_words: int, roles: Sequence[str], left_out: Counter[str]
) -> pa.Table:
    never = pa.array(list(roles), pa.string())
    rules = {
        "in a section that is never returned": pc.is_in(table["role"], value_set=never),
        "in a document that nearly equals another": pc.is_in(table["doc_id"], value_set=copies),
        "few words": pc.less(pc.fill_null(table["tokens"], 0), min_words),
    }
    out = pa.chunked_array([pa.array(np.zeros(table.num_rows, dtype=bool))])
    for reason, hit in rules.items():
        left_out[reason] += pc.sum(pc.and_not(hit, out)).as_py() or 0
        out = pc.or_(out, hit)
    return table.filter(pc.invert(out))


class _Part(NamedTuple):
    """What a Frame holds, of one shard; documents are counted from 0."""

    row: NDArray[np.int32]
    key: NDArray[np.uint64]
    document: NDArray[np.int32]
    document_key: NDArray[np.uint64]
    stratum: NDArray[np.int32]


def _part(table: pa.Table, seed: int, by: str | None, numbers: dict[str, int]) -> _Part:
    encoded = table["doc_id"].combine_chunks().dictionary_encode()
    document = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    ids = encoded.dictionary.to_pylist()
    chunk_ids = table["chunk_id"]
    keys = [
        _keys(seed, chunk_ids.slice(start, _AT_ONCE).to_pylist())
        for start in range(0, table.num_rows, _AT_ONCE)
    ]
    return _Part(
        table["row"].to_numpy(),
        np.concatenate([np.empty(0, np.uint64), *keys]),
        document,
        _keys(seed, ids),
        _strata(table, document, len(ids), by, numbers),
    )


def _strata(
    table: pa.Table, document: NDArray[np.int32], documents: int, by: str | None,
    numbers: dict[str, int],
) -> NDArray[np.int32]:  # fmt: skip
    """int32 [documents]: the stratum of each; a field's value is that of the whole document.

    `numbers` gives a value its number, over all shards.
    """
    if by is None:
        numbers[""] = 0
        return np.zeros(documents, np.int32)
    _, first = np.unique(document, return_index=True)
    values = table[by].take(pa.array(first)).to_pylist()
    names = [NO_VALUE if value is None else str(value) for value in values]
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int32)


def _keys(seed: int, names: Sequence[str]) -> NDArray[np.uint64]:
    words: Words = as_words([digest(str(seed), name) for name in names])
    return words[:, 0]


class Chunks:
    """Reads whole rows of CHUNK by their places, each row group once a call."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._ends: dict[int, NDArray[np.int64]] = {}

    def rows(self, places: Sequence[tuple[int, int]]) -> list[Row]:
        """The rows of places (shard, row), in their order."""
        groups: dict[tuple[int, int], list[int]] = {}
        for number, (shard, row) in enumerate(places):
            group = int(np.searchsorted(self._ends_of(shard), row, side="right"))
            groups.setdefault((shard, group), []).append(number)
        found: dict[int, Row] = {}
        for (shard, group), wanted in sorted(groups.items()):
            table = read_row_group(self._collection.shard_path("chunks", shard), group)
            before = int(self._ends_of(shard)[group]) - table.num_rows
            taken = table.take(pa.array([places[number][1] - before for number in wanted]))
            found |= dict(zip(wanted, taken.to_pylist(), strict=True))
        return [found[number] for number in range(len(places))]

    def _ends_of(self, shard: int) -> NDArray[np.int64]:
        if shard not in self._ends:
            sizes = rows_of_groups(self._collection.shard_path("chunks", shard))
            self._ends[shard] = np.cumsum(sizes, dtype=np.int64)
        return self._ends[shard]
