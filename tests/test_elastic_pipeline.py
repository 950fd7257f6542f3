"""Ingest and search through a real server process, as the commands do."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elastic_servers import Server, opensearch_process
from small_corpus import FAKE

from rag_cluster import config as configuration
from rag_cluster import pipeline
from rag_cluster.answer.query import Engine, SearchResult
from rag_cluster.errors import CollectionError, IngestError, ServiceError
from rag_cluster.index import build, elastic
from rag_cluster.index.elastic_client import Target, connect
from rag_cluster.models.sparse import FakeSparseEncoder
from rag_cluster.schema import indexed_text
from rag_cluster.storage import Collection, Writer

BM25 = "retrieve.channels=[bm25]"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with opensearch_process() as process:
        yield process


def settings_of(server: Server, shards: int = 2) -> list[str]:
    return [
        *FAKE,
        "metadata.fields={year: int, kind_of: keyword}",
        f"index.shards={shards}",
        "index.lexical.kind=elasticsearch",
        f"index.lexical.elastic.url={server.url}",
        f"index.lexical.elastic.api={server.api}",
        "index.lexical.elastic.retries=1",
    ]


@pytest.fixture(scope="module")
def served(
    server: Server, corpus: Path, tmp_path_factory: pytest.TempPathFactory, ray_session: None
) -> Path:
    path = tmp_path_factory.mktemp("served") / "My collection"
    settings = [*settings_of(server), "sparse.model=fake:1000"]
    pipeline.ingest([str(corpus)], path, configuration.load(None, settings))
    return path


def search(path: Path, query: str, *settings: str, where: Any = None) -> SearchResult:
    engine = Engine.open(path, settings=settings)
    try:
        return asyncio.run(engine.search(query, where=where))
    finally:
        engine.close()


def test_facts_on_the_server_give_their_chunks(server: Server, corpus: Path, tmp_path: Path,
                                               ray_session: None) -> None:  # fmt: skip
    settings = [*settings_of(server), "chunk.strategy=proposition", "llm.engine=fake",
                "prompts.proposition=$title $section $passage", "chunk.overlap=0"]  # fmt: skip
    made = configuration.load(None, settings)
    pipeline.ingest([str(corpus / "page.html")], tmp_path / "facts", made)
    found = search(tmp_path / "facts", "adults and children", BM25)
    assert found.hits[0].kind != "proposition"
    fact = found.by_channel[0]["bm25"].fact
    assert fact is not None
    assert "children" in fact
    assert "children" in found.hits[0].text


def test_sparse_vectors_are_searched_on_the_server(served: Path) -> None:
    opened = Collection.open(served)
    assert not (opened.folder / "sparse").exists()
    splade = "retrieve.channels=[splade]"
    found = search(served, "tickets cost nine euros", splade)
    assert "encode" not in found.timings_ms
    assert found.hits[0].uri.endswith("page.html")
    # The inner product of the fake's vectors, within the 9 bits that a server keeps of a weight.
    fake = FakeSparseEncoder(1000)
    (query,) = fake.encode(["tickets cost nine euros"])
    row = opened.chunks().row_of(found.hits[0].chunk_id)
    text = indexed_text(
        **opened.chunks().table.select(["context", "header", "text"]).slice(row, 1).to_pylist()[0]
    )
    (chunk,) = fake.encode([text])
    weights = dict(zip(chunk.terms.tolist(), chunk.weights.tolist(), strict=True))
    expected = sum(
        weight * weights.get(term, 0.0)
        for term, weight in zip(query.terms.tolist(), query.weights.tolist(), strict=True)
    )
    assert found.hits[0].score == pytest.approx(expected, rel=2**-8)
    years = search(served, "star", splade, where={"year": {"gte": 2018}})
    assert sorted(hit.title for hit in years.hits) == ["Star 18", "Star 19"]
    both = search(served, "tickets", "retrieve.channels=[dense, bm25, splade]")
    assert both.hits[0].uri.endswith("page.html")


def test_what_is_on_the_server_and_what_in_the_collection(served: Path, server: Server) -> None:
    opened = Collection.open(served)
    lexical = opened.manifest["lexical"]
    target = Target.of_manifest(lexical)
    assert lexical["kind"] == "elasticsearch"
    assert target.url == server.url
    assert target.index == f"{target.alias}-{opened.version}"
    assert target.alias.startswith("rag-my-collection-")
    assert not (opened.folder / "lexical").exists()
    client = connect(
        server.url, configuration.load(None, settings_of(server)).index.lexical.elastic
    )
    assert client.count(index=target.index)["count"] == opened.manifest["searchable"]
    client.close()


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("pump pressure", None),
        ("star", {"year": {"gte": 2010}}),
        ("star", {"not": {"kind_of": "star"}}),
        ("colour number", {"or": [{"year": [2001, 2002]}, {"title": "Star 7"}]}),
        ("nonexistentword", None),
    ],
    ids=str,
)
def test_the_same_hits_as_in_process(
    served: Path, collection: Path, query: str, where: dict[str, Any] | None
) -> None:
    here = search(collection, query, BM25, where=where)
    there = search(served, query, BM25, where=where)
    assert {hit.chunk_id for hit in here.hits} == {hit.chunk_id for hit in there.hits}
    scores = [hit.score for hit in there.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)


def test_fused_with_dense_vectors(served: Path) -> None:
    hits = search(served, "when do tulips bloom", "retrieve.top_k=3").hits
    assert len(hits) == 3
    assert any("Tulips" in hit.text for hit in hits)


def test_another_address_may_be_given_to_a_search(
    served: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = "http://127.0.0.1:1"
    with pytest.raises(ServiceError, match=f"at {nowhere}: cannot be reached"):
        search(served, "star", f"index.lexical.elastic.url={nowhere}")
    monkeypatch.setenv("ELASTICSEARCH_URL", nowhere)
    with pytest.raises(ServiceError, match=f"at {nowhere}: cannot be reached"):
        search(served, "star")
    assert search(served, "star", f"index.lexical.elastic.url={server.url}/").hits


def test_another_engine_is_refused(served: Path) -> None:
    with pytest.raises(CollectionError, match=r"made with index\.lexical\.kind = 'elasticsearch'"):
        search(served, "star", "index.lexical.kind=bm25s")


def test_versions_have_an_index_each(server: Server, served: Path, tmp_path: Path) -> None:
    path = tmp_path / "collection"
    shutil.copytree(served, path)
    config = configuration.load(None, settings_of(server))
    before = Engine.open(path, settings=[BM25])
    (tmp_path / "new.txt").write_text("The turbine hums.\n")
    pipeline.ingest([str(tmp_path / "new.txt")], path, config)
    assert search(path, "turbine", BM25).hits
    assert not asyncio.run(before.search("turbine")).hits  # a reader keeps its version
    assert asyncio.run(before.search("pump")).hits
    before.close()
    elastic.delete(Target.of_manifest(Collection.open(path).manifest["lexical"]), config)
    with pytest.raises(CollectionError, match=r"is not at http.*it was deleted"):
        search(path, "turbine", BM25)


def test_a_failed_build_leaves_no_index(server: Server, tmp_path: Path) -> None:
    config = configuration.load(None, settings_of(server))
    client = connect(server.url, config.index.lexical.elastic)
    seen = []

    def fail() -> None:
        with Writer(tmp_path / "c") as writer, build.served_index(writer, config, 3) as made:
            assert made is not None
            seen.append((made.index, bool(client.indices.exists(index=made.index))))

    with pytest.raises(IngestError, match="holds 0 chunks instead of 3"):
        fail()
    ((index, existed),) = seen
    assert existed
    assert not client.indices.exists(index=index)
    client.close()
