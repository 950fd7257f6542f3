"""The splade channel through the whole pipeline: made, searched, kept in step, removed."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from small_corpus import FAKE

from rag_cluster import config as configuration
from rag_cluster import deletion, pipeline
from rag_cluster.answer.found import SearchResult
from rag_cluster.answer.query import Engine
from rag_cluster.cli import run
from rag_cluster.errors import CollectionError, ConfigError
from rag_cluster.inspection import audit, overview
from rag_cluster.show import ingest as show
from rag_cluster.storage import Collection, read_table

SPLADE = ["sparse.model=fake:1000", "retrieve.channels=[dense, bm25, splade]"]
SETTINGS = [*FAKE, *SPLADE, "metadata.fields={year: int, kind_of: keyword}", "index.shards=2"]
ALONE = "retrieve.channels=[splade]"


@pytest.fixture(scope="module")
def sources(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(corpus, tmp_path_factory.mktemp("splade") / "sources"))


@pytest.fixture(scope="module")
def made(sources: Path, ray_session: None) -> Path:
    (sources / "twin").mkdir()
    shutil.copy(sources / "page.html", sources / "twin")  # equal texts, which are encoded once
    path = sources.parent / "collection"
    pipeline.ingest([str(sources)], path, configuration.load(None, SETTINGS))
    return path


def search(path: Path, query: str, *settings: str, where: Any = None) -> SearchResult:
    engine = Engine.open(path, settings=settings)
    try:
        return asyncio.run(engine.search(query, where=where))
    finally:
        engine.close()


def all_terms(opened: Collection) -> list[list[int]]:
    return [
        row["terms"]
        for shard in range(opened.shards)
        for row in read_table(opened.shard_path("vectors", shard), columns=["terms"]).to_pylist()
    ]


def test_the_channel_is_searched_alone_and_with_the_others(made: Path) -> None:
    opened = Collection.open(made)
    assert opened.manifest["encoder"]["sparse"] == {
        "model": "fake:1000", "revision": "fake:1000", "terms": 1000, "max_tokens": 256,
        "max_terms": None,
    }  # fmt: skip
    assert audit(opened)["problems"] == []
    found = overview(opened)["sparse"]
    assert found["weights"] == sum(len(terms) for terms in all_terms(opened))
    assert all(all_terms(opened))
    alone = search(made, "tickets at the gate", ALONE)
    assert set(alone.timings_ms) >= {"splade", "total"}
    assert "encode" not in alone.timings_ms  # the encoder of the dense channel is not loaded
    assert alone.hits[0].uri.endswith("page.html")
    for fusion in ("rrf", "convex", "routed"):
        result = search(made, "tickets at the gate", f"retrieve.fusion={fusion}")
        assert set(result.timings_ms) >= {"dense", "bm25", "splade"}
        assert result.hits[0].uri.endswith("page.html")


def test_a_filter_lets_through_what_it_should(made: Path) -> None:
    found = search(made, "star shines", ALONE, "retrieve.top_k=50", where={"kind_of": "star"})
    assert len(found.hits) == 10
    years = search(made, "star", ALONE, where={"year": {"gte": 2018}})
    assert sorted(hit.title for hit in years.hits) == ["Star 18", "Star 19"]


def test_another_model_is_refused(made: Path, collection: Path) -> None:
    with pytest.raises(CollectionError, match=r"sparse\.model = 'fake:1000'"):
        Engine.open(made, settings=["sparse.model=fake:2000"])
    said = r"has no sparse vectors .*ingest again with --set sparse\.model=fake:1000"
    with pytest.raises(CollectionError, match=said):
        Engine.open(collection, settings=[*SPLADE])
    with pytest.raises(ConfigError, match=r"splade, which searches sparse vectors: set sparse\.mo"):
        Engine.open(collection, settings=[ALONE])


def test_a_second_run_has_nothing_to_do(
    made: Path, sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model of the sparse vectors is known again by what the manifest says of it."""
    summary = pipeline.ingest([str(sources)], made, configuration.load(None, SETTINGS))
    assert (summary["published"], summary["work"]["texts"]) == (False, 0)
    average = overview(Collection.open(made))["sparse"]["weights_per_chunk"]
    show.summary(summary)
    assert f"sparse vectors: fake:1000, {average:.1f} terms in a chunk" in capsys.readouterr().out


def test_overview_and_report_say_what_there_is(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["inspect", "--collection", str(made)]) == 0
    assert re.search(r"sparse vectors +fake:1000, ", capsys.readouterr().out)
    assert run(["inspect", "--collection", str(made), "--report"]) == 0
    report = capsys.readouterr().out
    assert "The sparse vectors of fake:1000 have " in report
    assert "| sparse |" in report


def test_nothing_of_a_deleted_document_is_left(made: Path, sources: Path) -> None:
    page = sources / "page.html"
    removed = deletion.delete(made, [str(page)])
    assert removed["left"]["sparse"] == 0
    assert set(removed["left"].values()) == {0}
    assert audit(Collection.open(made))["problems"] == []
    found = [hit.uri for hit in search(made, "tickets at the gate", ALONE).hits]
    assert found[0].endswith("twin/page.html")
    assert not [uri for uri in found if uri.endswith("sources/page.html")]
