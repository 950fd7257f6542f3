import numpy as np
import pyarrow as pa
import pytest

from rag_cluster.retrieve.expand import collapse, expand, to_sources
from rag_cluster.retrieve.fuse import Ranking
from rag_cluster.schema import Passage

# Rows 0 to 3 are fragments of the section s (row 6); 4 and 5 are sections of their own.
CHUNKS = [
    ("f0", "s", "d1"),
    ("f1", "s", "d1"),
    ("f2", "s", "d1"),
    ("f3", "s", "d1"),
    ("a", None, "d1"),
    ("b", None, "d2"),
    ("s", None, "d1"),
]
TABLE = pa.table(
    {
        "chunk_id": [chunk for chunk, _, _ in CHUNKS],
        "parent_id": [parent for _, parent, _ in CHUNKS],
        "doc_id": [document for _, _, document in CHUNKS],
    }
)


class Store:
    """Seven chunks in memory."""

    def passage(self, row, score=0.0, rank=1):
        chunk, parent, document = CHUNKS[row]
        return Passage(
            rank=rank, score=score, chunk_id=chunk, doc_id=document, uri=document, title="",
            pages=None, section="", kind="section", parent_id=parent, ordinal=row, start=row * 10,
            end=row * 10 + 10, header="", text="x" * 10,
        )  # fmt: skip

    def row_of(self, chunk_id):
        return [chunk for chunk, _, _ in CHUNKS].index(chunk_id)

    def neighbours(self, row, n):
        home = CHUNKS[row][1]
        return [
            other
            for other in range(max(0, row - n), row + n + 1)
            if other != row and other < len(CHUNKS) and home and CHUNKS[other][1] == home
        ]

    def parent(self, row):
        parent = CHUNKS[row][1]
        return None if parent is None else self.row_of(parent)


def hits(*rows):
    store = Store()
    return [store.passage(row, 1.0 / rank, rank) for rank, row in enumerate(rows, 1)]


def shown(passages):
    assert [passage.rank for passage in passages] == list(range(1, len(passages) + 1))
    return [passage.chunk_id for passage in passages]


def ranked(*rows):
    return Ranking(np.array(rows, np.int64), np.linspace(1, 0, len(rows)))


@pytest.mark.parametrize(
    ("by", "rows"),
    [("none", [2, 0, 5, 4, 1]), ("section", [2, 5, 4]), ("document", [2, 5])],
)
def test_collapse_keeps_the_best_of_each(by, rows):
    result = collapse(ranked(2, 0, 5, 4, 1), by, TABLE)
    assert result.rows.tolist() == rows
    assert result.scores[0] == 1.0
    assert len(result.scores) == len(rows)


@pytest.mark.parametrize("by", ["none", "section", "document"])
def test_collapse_of_nothing(by):
    assert len(collapse(ranked(), by, TABLE).rows) == 0


def test_neighbours_stand_behind_all_hits_and_nothing_twice():
    grown = expand(hits(1, 5, 2), Store(), "neighbours", 1)
    assert shown(grown) == ["f1", "b", "f2", "f0", "f3"]
    assert grown[3].score == 1.0  # from the first hit
    assert grown[4].score == pytest.approx(1 / 3)  # from the third


def test_more_neighbours():
    assert shown(expand(hits(0), Store(), "neighbours", 2)) == ["f0", "f1", "f2"]
    assert shown(expand(hits(0), Store(), "neighbours", 0)) == ["f0"]


def test_parent_comes_once():
    assert shown(expand(hits(0, 4, 3), Store(), "parent")) == ["f0", "a", "f3", "s"]


def test_none_adds_nothing():
    assert shown(expand(hits(3, 4), Store(), "none")) == ["f3", "a"]


def test_facts_become_their_chunk_at_the_place_of_the_best_one():
    # Rows 0 to 3 are facts of the chunks 5 and 6, row 4 stands for itself.
    sources = np.array([5, 6, 5, 6, 4, 5, 6])
    found = to_sources(ranked(2, 4, 3, 0, 1), sources)
    assert found.ranking.rows.tolist() == [5, 4, 6]
    assert found.ranking.scores.tolist() == [1.0, 0.75, 0.5]
    assert found.found.tolist() == [2, 4, 3]


def test_without_facts_a_ranking_is_what_it_was():
    ranking = ranked(3, 1)
    found = to_sources(ranking, None)
    assert found.ranking is ranking
    assert found.found.tolist() == [3, 1]
    assert to_sources(ranked(), np.arange(4)).found.tolist() == []
