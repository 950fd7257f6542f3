"""Learned sparse vectors on a server, against the files that hold the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from elastic_servers import Proxy, Server, named_server, opensearch_process
from test_elastic_contract import chunk, config_of, loaded, new_target, table

from rag_cluster.config import Config
from rag_cluster.index import sparse
from rag_cluster.index.elastic_mapping import actions, index_body
from rag_cluster.index.elastic_query import MOST_TERMS, sparse_query
from rag_cluster.index.filters import parse_filter
from rag_cluster.models.sparse import FakeSparseEncoder, SparseVector
from rag_cluster.work import SPARSE

# A server keeps 9 bits of a weight, which is a relative error of 2^-8 at most.
TOLERANCE = 2**-8
WORDS = [f"w{number}" for number in range(40)]


@pytest.fixture(scope="module", params=["process", "media type", "named"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "named":
        named = named_server()
        if named is None:
            pytest.skip("no server is named by ELASTICSEARCH_URL")
        yield named
        return
    with opensearch_process() as process:
        if request.param == "process":
            yield process
        else:
            with Proxy(process.url, media_type=True) as proxy:
                yield Server(proxy.url, "elasticsearch")


def vectors_of(texts: list[str]) -> list[SparseVector]:
    return FakeSparseEncoder(1000).encode(texts)


def with_vectors(chunks: pa.Table, vectors: list[SparseVector]) -> pa.Table:
    for place, field in enumerate(SPARSE):
        chunks = chunks.append_column(field, pa.array([v[place] for v in vectors], field.type))
    return chunks


class Filled:
    """Chunks with sparse vectors on a server, and as a shard."""

    def __init__(self, config: Config) -> None:
        generator = np.random.default_rng(5)
        texts = [" ".join(generator.choice(WORDS, generator.integers(0, 9))) for _ in range(200)]
        vectors = vectors_of(texts)
        rows = [
            chunk(i, text, year=i % 5, role="index" if i % 11 == 0 else "body")
            for i, text in enumerate(texts)
        ]
        self.table = with_vectors(table(rows), vectors)
        self.index = loaded(new_target(config), config, self.table)
        self.shard = sparse.build_shard(self.table["terms"], self.table["weights"])


@pytest.fixture(scope="module")
def filled(server: Server) -> Iterator[Filled]:
    made = Filled(config_of(server, "sparse.model=fake:1000"))
    yield made
    made.index.close()


@pytest.mark.parametrize("query", ["w1", "w2 w3 w3", "w4 unknown", "w5 w6 w7 w8 w9"])
@pytest.mark.parametrize("where", [None, {"year": {"gte": 3}}, {"not": {"year": 2}}], ids=str)
def test_scores_are_those_of_the_files(filled: Filled, query: str, where: Any) -> None:
    (vector,) = vectors_of([query])
    wanted = parse_filter(where, {"year": "int"})
    mask = ~(np.array(filled.table["role"].to_pylist()) == "index")
    if wanted is not None:
        mask &= wanted.mask(filled.table)
    found, scores = filled.index.search_sparse(vector, 300, wanted, ["index"])
    own_scores, own_rows = filled.shard.search([vector], 300, mask)
    count = int((own_rows[0] >= 0).sum())
    assert len(found) == count > 0
    rows = [int(name[1:]) for name in found]
    assert sorted(rows) == sorted(own_rows[0, :count].tolist())
    own = dict(zip(own_rows[0, :count].tolist(), own_scores[0, :count].tolist(), strict=True))
    np.testing.assert_allclose(scores, [own[row] for row in rows], rtol=TOLERANCE)
    pairs = list(zip(-scores, rows, strict=True))
    assert pairs == sorted(pairs)  # ties in the collection's order


def test_a_query_that_says_nothing_has_no_hits(filled: Filled) -> None:
    (nothing,) = vectors_of(["..."])
    assert filled.index.search_sparse(nothing, 5)[0] == []
    (unknown,) = vectors_of(["unknown"])
    assert filled.index.search_sparse(unknown, 5)[0] == []
    assert len(filled.index.search_sparse(vectors_of(["w1"])[0], 2)[0]) == 2


def test_what_a_chunk_is_on_the_server() -> None:
    config = config_of(Server("http://nowhere:1", "opensearch"), "sparse.model=fake:1000")
    target, fields = new_target(config), config.metadata.fields
    plain = index_body(target, config.index.lexical, fields)
    assert "splade" not in plain["mappings"]["properties"]
    body = index_body(target, config.index.lexical, fields, sparse=True)
    assert body["mappings"]["properties"]["splade"] == {"type": "rank_features"}
    vector = SparseVector(np.array([3, 7], np.int32), np.array([0.5, 1e-40], np.float32))
    (action,) = actions(with_vectors(table([chunk(0, "a")]), [vector]), fields)
    assert action["_source"]["splade"] == {"3": 0.5}
    (action,) = actions(table([chunk(0, "a")]), fields)
    assert "splade" not in action["_source"]


def test_the_heaviest_terms_of_a_long_query_are_asked_for() -> None:
    terms = np.arange(MOST_TERMS + 1, dtype=np.int32)
    query = sparse_query(SparseVector(terms, terms.astype(np.float32) + 1), None, (), {})
    clauses = query["bool"]["should"]
    assert len(clauses) == MOST_TERMS
    assert clauses[0] == {"rank_feature": {"field": "splade.1000", "linear": {}, "boost": 1001.0}}
