import asyncio

import pytest

from rag_cluster.errors import DatasetError
from rag_cluster.evaluate.datasets import Qrel
from rag_cluster.evaluate.matching import match
from rag_cluster.evaluate.metrics import Measures
from rag_cluster.evaluate.run import evaluate, named_run, rank_items, search_depth
from rag_cluster.schema import Passage


def passage(doc_id, pages=None, score=1.0):
    return Passage(
        rank=1, score=score, chunk_id="c", doc_id=doc_id, uri=doc_id, title="", pages=pages,
        section="", kind="section", parent_id=None, ordinal=0, start=0, end=1, header="", text="x",
    )  # fmt: skip


def run(found, queries, qrels, measures="RR@10 R@10"):
    asked = []

    async def search(query):
        asked.append(query)
        return found.get(query, [])

    documents = [("d1", "/d1.pdf"), ("d2", "/d2.pdf"), ("d3", "/d3.pdf")]
    result = asyncio.run(evaluate(search, queries, match(qrels, documents), Measures(measures)))
    return result, asked


def test_documents_collapse_to_their_best_chunk():
    hits = [passage("d2", score=0.9), passage("d2", score=0.8), passage("d1", score=0.7)]
    result, asked = run({"one": hits}, {"a": "one"}, [Qrel("a", "d1", None, 1)])
    assert result.metrics == {"RR@10": 0.5, "R@10": 1.0}
    assert result.per_query == {"RR@10": {"a": 0.5}, "R@10": {"a": 1.0}}
    assert result.rankings == {"a": [(("d2", None), 0.9), (("d1", None), 0.7)]}
    assert asked == ["one", "one"]  # the first query warms up


def test_a_chunk_counts_for_each_page_it_spans():
    hits = [
        passage("d1", (3, 4), 0.9),
        passage("d1", None, 0.8),
        passage("d1", (4, 5), 0.7),
        passage("d2", (4, 4), 0.6),
    ]
    ranked = rank_items(hits, by_page=True)
    assert ranked == [
        (("d1", 3), 0.9),
        (("d1", 4), 0.9),
        (("d1", 5), 0.7),
        (("d2", 4), 0.6),
    ]
    result, _ = run({"one": hits}, {"a": "one"}, [Qrel("a", "d1.pdf", 5, 1)])
    assert result.metrics["RR@10"] == pytest.approx(1 / 3)


def test_means_are_over_the_judged_queries():
    found = {"one": [passage("d1")], "two": [passage("d3")]}
    queries = {"a": "one", "b": "two", "c": "three", "unjudged": "four"}
    qrels = [
        Qrel("a", "d1", None, 1),
        Qrel("b", "d2", None, 1),
        Qrel("c", "d1", None, 1),
        Qrel("elsewhere", "d1", None, 1),
        Qrel("a", "gone", None, 1),
    ]
    result, asked = run(found, queries, qrels)
    assert result.queries == 3
    assert result.metrics == pytest.approx({"RR@10": 1 / 3, "R@10": (1 / 2) / 3})
    assert asked == ["one", "one", "two", "three"]
    assert [note.split()[0] for note in result.notes] == ["1", "the", "1"]


def test_latency_is_in_milliseconds_and_in_order():
    async def search(_):
        await asyncio.sleep(0.01)
        return []

    judgements = match([Qrel("a", "d1", None, 1)], [("d1", "/d1.pdf")])
    result = asyncio.run(evaluate(search, {"a": "x"}, judgements, Measures("R@1")))
    latency = result.latency_ms
    assert list(latency) == ["p50", "p95", "p99"]
    assert 9 < latency["p50"] <= latency["p95"] <= latency["p99"]


def test_no_query_is_judged():
    with pytest.raises(DatasetError, match=r"none of the 1 queries .*'a'.* is judged"):
        run({}, {"a": "one"}, [Qrel("b", "d1", None, 1)])


def test_depth_leaves_room_for_chunks_of_one_document():
    assert search_depth(Measures("nDCG@10 R@100")) >= 200


def test_a_run_has_the_names_of_the_qrels():
    rankings = {"q": [(("d1", 2), 0.5), (("d9", None), 0.25)]}
    assert named_run(rankings, {"d1": "d1.pdf"}) == {"q": [("d1.pdf", 2, 0.5), ("d9", None, 0.25)]}
