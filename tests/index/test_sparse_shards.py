from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rag_cluster.errors import CollectionError
from rag_cluster.index import sparse
from rag_cluster.models.sparse import SparseVector

# Chunk 0: terms 2 and 5; chunk 1: none; chunk 2: term 5; chunk 3: term 0.
TERMS = [[2, 5], [], [5], [0]]
WEIGHTS = [[0.5, 1.5], [], [2.0], [1.0]]


def shard(terms: list[list[int]], weights: list[list[float]]) -> sparse.SparseShard:
    columns = (pa.array(terms, pa.list_(pa.int32())), pa.array(weights, pa.list_(pa.float32())))
    return sparse.build_shard(*(pa.chunked_array([column]) for column in columns))


def vector(terms: list[int], weights: list[float]) -> SparseVector:
    return SparseVector(np.array(terms, np.int32), np.array(weights, np.float32))


def test_scores_are_inner_products(tmp_path: Path) -> None:
    made = shard(TERMS, WEIGHTS)
    made.save(tmp_path / "made")
    queries = [vector([2, 5], [2.0, 1.0]), vector([0, 9], [0.25, 1.0]), vector([1], [1.0])]
    for one in (made, sparse.SparseShard.open(tmp_path / "made")):
        scores, rows = one.search(queries, 3)
        # 2 * .5 + 1 * 1.5 = 2.5 and 1 * 2 = 2; .25 * 1
        assert rows.tolist() == [[0, 2, -1], [3, -1, -1], [-1, -1, -1]]
        assert scores[0, :2].tolist() == [2.5, 2.0]
        assert scores[1, 0] == 0.25


def test_the_matrix_is_by_columns(tmp_path: Path) -> None:
    shard(TERMS, WEIGHTS).save(tmp_path / "made")
    arrays = {path.stem: np.load(path) for path in (tmp_path / "made").glob("*.npy")}
    assert arrays["indptr"].tolist() == [0, 1, 1, 2, 2, 2, 4]
    assert arrays["indices"].tolist() == [3, 0, 0, 2]
    assert arrays["data"].tolist() == [1.0, 0.5, 1.5, 2.0]


def test_files_are_arrays_and_json_and_are_mapped(tmp_path: Path) -> None:
    shard(TERMS, WEIGHTS).save(tmp_path / "made")
    assert {path.suffix for path in (tmp_path / "made").iterdir()} == {".npy", ".json"}
    opened = sparse.SparseShard.open(tmp_path / "made")
    assert isinstance(opened._data.base, np.memmap)
    assert opened.size == 4


def test_a_damaged_or_absent_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="cannot be read"):
        sparse.SparseShard.open(tmp_path / "absent")
    shard(TERMS, WEIGHTS).save(tmp_path / "made")
    (tmp_path / "made" / "data.npy").write_bytes(b"nonsense")
    with pytest.raises(CollectionError, match="cannot be read"):
        sparse.SparseShard.open(tmp_path / "made")
