"""The chunks of a version, in one order over all its shards."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_cluster.schema import Passage

PASSAGE_COLUMNS = [
    "chunk_id", "doc_id", "uri", "title", "page_first", "page_last", "section_path", "kind",
    "parent_id", "ordinal", "start", "end", "header", "text",
]  # fmt: skip


class ChunkStore:
    """The chunks of a version in one order that does not depend on the number of shards.

    Rows are ordered by (searchable first, doc_id, ordinal); a tie between two scores goes to the
    lower row. `rows[shard]` gives for each row of a shard's own table its row here.
    """

    def __init__(self, shards: Sequence[pa.Table]) -> None:
        table = pa.concat_tables(shards).combine_chunks()
        order = np.arange(table.num_rows, dtype=np.int64)
        if len(shards) > 1:
            keys = [("searchable", "descending"), ("doc_id", "ascending"), ("ordinal", "ascending")]
            order = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
            table = table.take(pa.array(order)).combine_chunks()
        self.table = table
        self.searchable = int(pc.sum(table.column("searchable")).as_py() or 0)
        inverse = np.empty_like(order)
        inverse[order] = np.arange(len(order))
        ends = np.cumsum([shard.num_rows for shard in shards])[:-1]
        self.rows: list[NDArray[np.int64]] = np.split(inverse, ends)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def passages(self, rows: NDArray[np.int64], scores: NDArray[np.floating]) -> list[Passage]:
        """The rows as passages, ranked from 1 in the order given."""
        taken = self.table.select(PASSAGE_COLUMNS).take(pa.array(rows)).to_pylist()
        return [
            _passage(row, rank, float(score))
            for rank, (row, score) in enumerate(zip(taken, scores, strict=True), 1)
        ]

    def passage(self, row: int, score: float = 0.0, rank: int = 1) -> Passage:
        """One row as a passage."""
        found = self.table.select(PASSAGE_COLUMNS).slice(row, 1).to_pylist()[0]
        return _passage(found, rank, score)

    def row_of(self, chunk_id: str) -> int:
        """The row of a chunk. Raises KeyError."""
        return self._rows[chunk_id]

    def parent(self, row: int) -> int | None:
        """The row of the section that a fragment is a part of, or of the chunk of a fact."""
        parent = self._value("parent_id", row)
        return None if parent is None else self._parents.get(parent)

    def neighbours(self, row: int, n: int) -> list[int]:
        """The rows of up to `n` chunks before and `n` after, in order, within the same section."""
        home, place = self._section(row), self._place(row)
        if place is None:  # a section that stands only as the parent of its parts
            return []
        before: list[int] = []
        after: list[int] = []
        for found, steps in (
            (before, range(place - 1, max(0, place - n) - 1, -1)),
            (after, range(place + 1, min(len(self._reading), place + n + 1))),
        ):
            for other in steps:
                if self._section(int(self._reading[other])) != home:
                    break
                found.append(int(self._reading[other]))
        return [*reversed(before), *after]

    @functools.cached_property
    def sources(self) -> NDArray[np.int64] | None:
        """For each row that of the chunk whose rewritten text it is, else itself; int64 [rows].

        None where nothing is rewritten: then every row stands for itself.
        """
        rewritten = pc.equal(self.table.column("kind"), "proposition").to_numpy()
        if not rewritten.any():
            return None
        rows = np.arange(len(self), dtype=np.int64)
        facts = np.flatnonzero(rewritten)
        chunks = self.table.column("chunk_id").slice(self.searchable).combine_chunks()
        parents = self.table.column("parent_id").take(pa.array(facts))
        found = pc.fill_null(pc.index_in(parents, value_set=chunks), -1).to_numpy()
        rows[facts] = np.where(found < 0, facts, self.searchable + found)
        return rows

    @functools.cached_property
    def _reading(self) -> NDArray[np.int64]:
        """The rows that can be hits, document by document, in reading order."""
        if self.sources is None:
            return np.arange(self.searchable, dtype=np.int64)
        rows = np.unique(self.sources[: self.searchable])
        keys = [("doc_id", "ascending"), ("ordinal", "ascending")]
        order = pc.sort_indices(self.table.select(["doc_id", "ordinal"]).take(rows), sort_keys=keys)
        reading: NDArray[np.int64] = rows[order.to_numpy()]
        return reading

    def _place(self, row: int) -> int | None:
        """Where a row stands in `_reading`; None where it does not."""
        if self.sources is None:
            return row if row < self.searchable else None
        return self._places.get(row)

    @functools.cached_property
    def _places(self) -> dict[int, int]:
        return {int(row): place for place, row in enumerate(self._reading)}

    def _value(self, column: str, row: int) -> Any:
        return self.table.column(column)[row].as_py()

    def _section(self, row: int) -> tuple[str, str | None, str]:
        return (
            self._value("doc_id", row),
            self._value("parent_id", row),
            self._value("section_path", row),
        )

    @functools.cached_property
    def _rows(self) -> dict[str, int]:
        return {chunk: row for row, chunk in enumerate(self.table.column("chunk_id").to_pylist())}

    @functools.cached_property
    def _parents(self) -> dict[str, int]:
        chunk_ids = self.table.column("chunk_id").slice(self.searchable).to_pylist()
        return {chunk: row for row, chunk in enumerate(chunk_ids, self.searchable)}


def _passage(row: dict[str, Any], rank: int, score: float) -> Passage:
    first, last = row["page_first"], row["page_last"]
    return Passage(
        rank=rank,
        score=score,
        chunk_id=row["chunk_id"],
        doc_id=row["doc_id"],
        uri=row["uri"],
        title=row["title"],
        pages=None if first is None else (first, last),
        section=row["section_path"],
        kind=row["kind"],
        parent_id=row["parent_id"],
        ordinal=row["ordinal"],
        start=row["start"],
        end=row["end"],
        header=row["header"],
        text=row["text"],
    )
