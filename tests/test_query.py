"""The query path over a small collection, in one shard and in three."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pymupdf
import pytest
from chat_server import Reply, serve
from chat_server import answer as chat_answer
from small_corpus import FAKE

from rag_cluster import config, pipeline
from rag_cluster.answer.query import Answer, Engine, SearchResult
from rag_cluster.errors import CollectionError, FilterError, ModelError, UsageError
from rag_cluster.schema import Passage
from rag_cluster.storage import Collection
from rag_cluster.storage.manifest import write_manifest

STARS = 40
METHOD = " ".join(
    f"Step {i} of the method heats copper sample {i} slowly for {i} minutes." for i in range(2, 26)
)


def write_source(folder: Path) -> Path:
    folder.mkdir()
    (folder / "paper.md").write_text(
        f"# Copper paper\n\n## Method\n\n{METHOD}\n\n## Results\n\nCopper turned red.\n\n"
        "## References\n\n[1] A. Smith. On zinc alloys in harbours. Journal of Metals, 1999.\n"
    )
    document = pymupdf.open()
    for words in ("The harbour was built of granite.", "The lighthouse keeper counts gulls."):
        document.new_page().insert_text((72, 72), words)
    document.save(folder / "harbour.pdf")
    rows = [
        {"_id": f"r{i}", "title": f"Star {i}", "text": f"Star {i} shines in colour {i % 7}.",
         "year": 2000 + i % 10}
        for i in range(STARS)
    ]  # fmt: skip
    (folder / "stars.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module", params=[1, 3], ids=["one shard", "three shards"])
def path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, ray_session: None
) -> Path:
    folder = tmp_path_factory.mktemp("query")
    source = write_source(folder / "source")
    settings = [
        *FAKE,
        "resources.encoders=1",
        f"index.shards={request.param}",
        "metadata.fields={year: int}",
    ]
    pipeline.ingest([str(source)], folder / "c", config.load(None, settings))
    return folder / "c"


def search(path: Path, query: str, *settings: str, **options: Any) -> SearchResult:
    return asyncio.run(Engine.open(path, None, settings).search(query, **options))


def ask(path: Path, question: str, *settings: str) -> Answer:
    return asyncio.run(Engine.open(path, None, settings).ask(question))


def descends(hits: list[Passage]) -> bool:
    scores = [hit.score for hit in hits]
    ranks = [hit.rank for hit in hits]
    return scores == sorted(scores, reverse=True) and ranks == list(range(1, len(hits) + 1))


@pytest.mark.parametrize("fusion", ["rrf", "convex", "routed"])
def test_a_filtered_search_gives_k_hits_whenever_k_exist(path: Path, fusion: str) -> None:
    """Few candidates, so that the first round never suffices."""
    engine = Engine.open(path, None, ["retrieve.candidates=2", f"retrieve.fusion={fusion}"])
    table = engine.store.table
    years = dict(zip(table["chunk_id"].to_pylist(), table["year"].to_pylist(), strict=True))
    for where, fits in (
        ({"year": 2003}, {2003}),
        ({"year": [2001, 2008]}, {2001, 2008}),
        ({"not": {"year": {"lt": 2007}}}, {2007, 2008, 2009}),
        ({"year": {"gt": 2050}}, set()),
    ):
        exist = {chunk for chunk, year in years.items() if year in fits}
        if "not" in where:
            exist |= {
                row["chunk_id"]
                for row in table.select(["chunk_id", "year", "searchable", "role"]).to_pylist()
                if row["year"] is None and row["searchable"] and row["role"] == "body"
            }
        for k in (1, 3, 8, 100):
            hits = asyncio.run(engine.search("star colour 3", top_k=k, where=where)).hits
            assert len(hits) == min(k, len(exist)), (where, k)
            assert {hit.chunk_id for hit in hits} <= exist
            assert descends(hits)


def test_sections_of_references_are_found_only_when_asked_for(path: Path) -> None:
    query = "zinc alloys in harbours"
    left_out = search(path, query, top_k=200)
    assert not any("References" in hit.section for hit in left_out.hits)
    found = search(path, query, "retrieve.exclude_roles=[]", top_k=200)
    assert "References" in found.hits[0].section
    assert len(found.hits) == len(left_out.hits) + 1


@pytest.mark.parametrize("by", ["section", "document"])
def test_collapsing_still_leaves_k(path: Path, by: str) -> None:
    """The fragments of one section fill all of the first candidates."""
    settings = (f"retrieve.collapse={by}", "retrieve.candidates=3")
    plain = search(path, "copper sample", "retrieve.candidates=3", top_k=3).hits
    assert len({hit.parent_id for hit in plain}) == 1
    hits = search(path, "copper sample", *settings, top_k=20).hits
    homes = [hit.doc_id if by == "document" else hit.parent_id or hit.chunk_id for hit in hits]
    assert len(hits) == len(set(homes)) == 20
    assert descends(hits)


def test_citations_point_to_text_and_page(path: Path) -> None:
    answer = ask(path, "what does the lighthouse keeper count", "generate.min_similarity=0.1")
    citation = answer.citations[0]
    assert citation.uri.endswith("/harbour.pdf")
    assert citation.page == 2
    assert citation.quote == "The lighthouse keeper counts gulls."
    opened = Collection.open(path)
    for citation in answer.citations:
        document = opened.document(citation.doc_id, ["text"])
        assert citation.quote in " ".join(document["text"].split())
        assert f"[{citation.marker}]" in answer.answer
    store = opened.chunks()
    assert all(store.row_of(citation.chunk_id) >= 0 for citation in answer.citations)


def test_a_question_that_nothing_answers(path: Path) -> None:
    answer = ask(path, "who won the chess tournament", "generate.min_similarity=0.9")
    assert answer.citations == []
    assert answer.answer.startswith("Nothing in the collection")


@pytest.mark.parametrize("how", ["none", "neighbours", "parent"])
def test_expansion_gives_the_generator_more_and_the_hits_stay(path: Path, how: str) -> None:
    """The sentence asked for stands beside the only hit."""
    seen: list[str] = []

    def decide(call: dict[str, Any]) -> Reply:
        seen.append(call["messages"][-1]["content"])
        return chat_answer("Copper is heated. [1]", call)

    with serve(decide) as url:
        openai = ["generate.kind=openai", "generate.model=m", f"generate.base_url={url}"]
        engine = Engine.open(path, None, [*openai, f"retrieve.expand={how}"])
        answer = asyncio.run(engine.ask("copper sample 13", top_k=1))
    steps = sum(f"Step {i} " in seen[0] for i in range(2, 26))
    within = sum(f"Step {i} " in answer.hits[0].text for i in range(2, 26))
    assert len(answer.hits) == 1
    assert steps == {"none": within, "parent": 24}.get(how, steps)
    assert how == "none" or steps > within


def test_an_empty_query_is_refused(path: Path) -> None:
    for query in ("", " \n"):
        with pytest.raises(UsageError, match="empty"):
            search(path, query)
        with pytest.raises(UsageError, match="empty"):
            ask(path, query)


def test_a_query_without_a_known_word_and_a_very_long_one(path: Path) -> None:
    assert len(search(path, "!?", top_k=5).hits) == 5
    assert len(search(path, "copper " * 3000, top_k=5).hits) == 5


def test_an_undeclared_field_is_refused(path: Path) -> None:
    with pytest.raises(FilterError, match="month"):
        search(path, "star", where={"month": 3})


def test_bm25_alone_never_loads_the_encoder(path: Path, tmp_path: Path) -> None:
    """The model of this collection is gone: only the dense channel misses it."""
    shutil.copytree(path, tmp_path / "c")
    opened = Collection.open(tmp_path / "c")
    text = json.dumps(opened.manifest).replace('"fake:64"', '"/no/such/model"')
    write_manifest(opened.folder, json.loads(text))
    found = search(tmp_path / "c", "lighthouse", "retrieve.channels=[bm25]")
    assert found.hits[0].uri.endswith("/harbour.pdf")
    assert "encode" not in found.timings_ms
    with pytest.raises(ModelError, match="/no/such/model"):
        search(tmp_path / "c", "lighthouse")


def test_another_encoder_is_refused(path: Path) -> None:
    with pytest.raises(CollectionError, match=r"made with embed\.model = 'fake:64'"):
        Engine.open(path, None, ["embed.model=fake:32"])
    with pytest.raises(CollectionError, match=r"metadata\.fields"):
        Engine.open(path, None, ["metadata.fields={year: int, month: int}"])


RERANKERS = {
    "cross encoder": ["rerank.kind=cross_encoder", "rerank.model=fake:overlap"],
    "late interaction": ["rerank.kind=late_interaction"],
    "cascade": [
        "rerank.kind=cascade",
        "rerank.stages=[{keep: 8}, {kind: cross_encoder, keep: 4, model: 'fake:overlap'}]",
    ],
}


@pytest.mark.parametrize("name", RERANKERS)
def test_reranking_orders_the_candidates_anew(path: Path, name: str) -> None:
    query = "slowly heats the harbour star 13 colour 3"
    settings = [*RERANKERS[name], "rerank.candidates=12"]
    before = search(path, query, "retrieve.channels=[dense]", top_k=30)
    after = search(path, query, "retrieve.channels=[dense]", *settings, top_k=30)
    assert "rerank" in after.timings_ms
    ids = [hit.chunk_id for hit in after.hits]
    was = [hit.chunk_id for hit in before.hits]
    assert set(ids[:12]) == set(was[:12])
    assert ids[:12] != was[:12]
    assert ids[12:] == was[12:]
    assert descends(after.hits)


def test_overlap_puts_the_passage_with_all_words_first(path: Path) -> None:
    settings = [*RERANKERS["cross encoder"], "rerank.candidates=100"]
    for query in ("star 17 shines in colour 3", "copper turned red", "keeper counts gulls"):
        (hit,) = search(path, query, *settings, top_k=1).hits
        assert hit.score == pytest.approx(1.0)


def test_an_openai_server_writes_the_answer(path: Path) -> None:
    calls: list[dict[str, Any]] = []

    def decide(call: dict[str, Any]) -> Reply:
        calls.append(call)
        return chat_answer("The lighthouse keeper counts gulls. [1] The moon is far. [9]", call)

    with serve(decide) as url:
        answer = ask(
            path, "what does the lighthouse keeper count", "generate.kind=openai",
            "generate.model=small", f"generate.base_url={url}",
        )  # fmt: skip
    assert calls[0]["model"] == "small"
    assert "counts gulls" in calls[0]["messages"][-1]["content"]
    assert "[9]" not in answer.answer
    assert any("[9]" in note for note in answer.notes)
    assert [citation.marker for citation in answer.citations] == [1]
