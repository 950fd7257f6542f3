"""From hits to what a reader needs: fewer of the same section or document, more around each.

Where facts that a chunk was rewritten as are searched, the chunk stands for them.
The chunk store is a port: `rag_cluster.storage` has the real one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rag_cluster.retrieve.fuse import Ranking
from rag_cluster.schema import Passage

Collapse = Literal["none", "section", "document"]
Expand = Literal["none", "neighbours", "parent"]


class ChunkStore(Protocol):
    """What expansion asks of a collection's chunks. A row is a number that the store gives."""

    def passage(self, row: int, score: float = 0.0, rank: int = 1) -> Passage:
        """The chunk of a row as a passage."""

    def row_of(self, chunk_id: str) -> int:
        """The row of a chunk."""

    def neighbours(self, row: int, n: int) -> list[int]:
        """Rows of up to n chunks on either side within the section, in reading order."""

    def parent(self, row: int) -> int | None:
        """The row of the section that the chunk is a part of."""


def collapse(ranking: Ranking, by: Collapse, table: pa.Table) -> Ranking:
    """Keeps the best row of each section or document, in the order that is there.

    `table` has the chunks that the rows count, with the columns doc_id, or chunk_id and parent_id.
    A chunk without a parent is a section of its own.
    """
    if by == "none" or not len(ranking.rows):
        return ranking
    rows = pa.array(ranking.rows)
    if by == "document":
        keys = table.column("doc_id").take(rows).to_pylist()
    else:
        own = table.column("chunk_id").take(rows).to_pylist()
        parents = table.column("parent_id").take(rows).to_pylist()
        keys = [parent or chunk for parent, chunk in zip(parents, own, strict=True)]
    first: dict[str, int] = {}
    for place, key in enumerate(keys):
        first.setdefault(key, place)
    places = list(first.values())
    return Ranking(ranking.rows[places], ranking.scores[places])


class Sources(NamedTuple):
    """A ranking of chunks, and for each of them the row that was found, int64 [n].

    That is another one where what was found is a fact that the chunk was rewritten as.
    """

    ranking: Ranking
    found: NDArray[np.int64]


def to_sources(ranking: Ranking, sources: NDArray[np.int64] | None) -> Sources:
    """The chunks that the rows stand for, each once, where its best row stands.

    `sources` has for each row that of the chunk which it was rewritten from; None where no row was.
    """
    if sources is None:
        return Sources(ranking, ranking.rows)
    rows = sources[ranking.rows]
    best = np.sort(np.unique(rows, return_index=True)[1])
    return Sources(Ranking(rows[best], ranking.scores[best]), ranking.rows[best])


def expand(
    passages: Sequence[Passage], store: ChunkStore, how: Expand, neighbours: int = 1
) -> list[Passage]:
    """The passages, and behind them what stands around each, ranked from 1.

    `neighbours` adds up to so many chunks on either side within the section, `parent` the section
    that a fragment is a part of. What is added stands behind all hits, in the order of the hits, so
    that under a budget it takes what they leave; it has its hit's score. No chunk is there twice.
    Overlapping and adjacent spans are left apart, each with its own pages; whoever shows them joins
    them in document order (`answer.assemble`).
    """
    seen = {passage.chunk_id for passage in passages}
    added: list[Passage] = []
    for passage in passages:
        for row in _around(store.row_of(passage.chunk_id), store, how, neighbours):
            near = store.passage(row, passage.score)
            if near.chunk_id not in seen:
                seen.add(near.chunk_id)
                added.append(near)
    return [replace(passage, rank=rank) for rank, passage in enumerate([*passages, *added], 1)]


def _around(row: int, store: ChunkStore, how: Expand, neighbours: int) -> Iterator[int]:
    match how:
        case "neighbours":
            yield from store.neighbours(row, neighbours)
        case "parent":
            parent = store.parent(row)
            if parent is not None:
                yield parent
        case "none":
            pass
