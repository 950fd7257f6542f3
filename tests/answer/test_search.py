"""Transforms and rerankers on the query path, with a real server in the language model's place."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from chat_server import Reply, likely, serve
from chat_server import answer as say

from rag_cluster.answer.found import SearchResult
from rag_cluster.answer.query import Engine
from rag_cluster.errors import ConfigError

QUERY = "which colour has star 7"
Decide = Callable[[dict[str, Any]], Reply]


@contextmanager
def model(decide: Decide) -> Iterator[list[str]]:
    """Settings that name a server whose answers `decide` gives."""
    with serve(decide) as url:
        yield ["llm.engine=openai", "llm.model=m", f"llm.base_url={url}", "llm.retries=0"]


def search(path: Path, *settings: str, query: str = QUERY, top_k: int = 30) -> SearchResult:
    return asyncio.run(Engine.open(path, None, settings).search(query, top_k=top_k))


def ids(found: SearchResult) -> list[str]:
    return [hit.chunk_id for hit in found.hits]


def prompt(call: dict[str, Any]) -> str:
    return str(call["messages"][-1]["content"])


def saying(value: Any) -> Decide:
    text = value if isinstance(value, str) else json.dumps(value)
    return lambda call: say(text, call)


def test_several_ways_to_ask_are_searched_and_fused(collection: Path) -> None:
    plain = search(collection)
    other = "when do tulips bloom in the garden"
    with model(saying({"queries": [other, "roses"]})) as settings:
        found = search(collection, *settings, "transform.kind=multi_query")
    assert found.transformed is not None
    assert found.to_json()["transform"] == {
        "kind": "multi_query",
        "queries": [QUERY, other, "roses"],
    }
    assert found.notes == []
    assert found.timings_ms["transform"] > 0
    # Each query's best stands high, by reciprocal rank over the three rankings.
    best = [search(collection, query=query).hits[0] for query in (QUERY, other)]
    assert {hit.chunk_id for hit in best} <= set(ids(found)[:4])
    assert found.hits[0].score == pytest.approx(sum(ranks(collection, found, QUERY, other)))
    assert plain.to_json()["transform"] is None


def ranks(collection: Path, found: SearchResult, *queries: str) -> Iterator[float]:
    """What the best hit gets of each query, and of "roses"."""
    for query in (*queries, "roses"):
        order = ids(search(collection, query=query, top_k=200))
        if found.hits[0].chunk_id in order:
            yield 1 / (60 + 1 + order.index(found.hits[0].chunk_id))


def test_step_back_searches_one_more_question(collection: Path) -> None:
    with model(saying({"queries": ["which colours do stars have"]})) as settings:
        found = search(collection, *settings, "transform.kind=step_back")
    assert found.to_json()["transform"]["queries"] == [QUERY, "which colours do stars have"]


def test_hyde_changes_the_dense_channel_alone(collection: Path) -> None:
    dense, words = ["retrieve.channels=[dense]"], ["retrieve.channels=[bm25, dense]"]
    passage = "Tulips bloom in May and roses in June."
    with model(saying(passage)) as settings:
        hyde = [*settings, "transform.kind=hyde", "transform.count=2"]
        moved = search(collection, *hyde, *dense)
        weighted = [*words, "retrieve.fusion=convex", "retrieve.alpha=0"]
        still = search(collection, *hyde, *weighted)
    assert moved.hits[0].uri.endswith("/garden.txt")
    assert not search(collection, *dense).hits[0].uri.endswith("/garden.txt")
    assert moved.to_json()["transform"]["documents"] == [passage]
    assert ids(still)[:5] == ids(search(collection, *weighted))[:5]


def test_hyde_without_the_dense_channel_is_refused(collection: Path) -> None:
    with pytest.raises(ConfigError, match="made up is near the answer in meaning"):
        search(collection, "llm.engine=fake", "transform.kind=hyde", "retrieve.channels=[bm25]")


def test_feedback_adds_words_of_the_first_results(collection: Path) -> None:
    settings = ["retrieve.channels=[bm25]", "transform.kind=feedback", "transform.documents=1"]
    plain = search(collection, *settings[:1], query="tulips")
    found = search(collection, *settings, query="tulips")
    assert len(plain.hits) == 1
    words = found.to_json()["transform"]["words"]
    assert words["tulips"] > words["roses"] > 0
    assert sum(words.values()) == pytest.approx(1, abs=1e-4)
    assert found.hits[0].chunk_id == plain.hits[0].chunk_id
    again = search(collection, *settings, query="pressure limit")
    assert again.hits[0].uri.endswith("/pump.md")
    assert again.timings_ms["transform"] >= 0


def test_feedback_that_finds_nothing_searches_the_query(collection: Path) -> None:
    settings = ["retrieve.channels=[bm25]", "transform.kind=feedback"]
    found = search(collection, *settings, query="zeppelin")
    assert (found.hits, found.notes) == ([], [])


def test_a_model_picks_words_from_the_first_results(collection: Path) -> None:
    seen: list[str] = []

    def decide(call: dict[str, Any]) -> Reply:
        seen.append(prompt(call))
        return say('{"terms": ["lid", "euros"]}', call)

    with model(decide) as settings:
        found = search(
            collection, *settings, "transform.kind=feedback_llm", "retrieve.channels=[bm25]",
            query="pump",
        )  # fmt: skip
    assert "Switch the pump off" in seen[0]
    assert any(hit.uri.endswith("/page.html") for hit in found.hits)


@pytest.mark.parametrize("kind", ["hyde", "multi_query", "step_back", "feedback_llm"])
def test_a_transform_that_fails_searches_the_query_and_says_so(collection: Path, kind: str) -> None:
    with model(lambda _: Reply(503)) as settings:
        found = search(collection, *settings, f"transform.kind={kind}")
    assert ids(found) == ids(search(collection))
    (note,) = found.notes
    assert note.startswith(f"transform {kind} failed")
    assert "HTTP 503" in note


def test_a_transform_that_takes_too_long_is_left(collection: Path) -> None:
    released = threading.Event()
    with model(lambda _: Reply(wait=released)) as settings:
        start = time.monotonic()
        found = search(
            collection, *settings, "transform.kind=multi_query", "transform.timeout_s=0.2"
        )
        assert time.monotonic() - start < 10
        released.set()
    assert ids(found) == ids(search(collection))
    assert "transform.timeout_s" in found.notes[0]


def backwards(call: dict[str, Any]) -> Reply:
    count = len(re.findall(r"^\[\d+\] ", prompt(call), re.MULTILINE))
    return say(" > ".join(f"[{number}]" for number in range(count, 0, -1)), call)


LISTWISE = ["rerank.kind=listwise_llm", "rerank.candidates=6", "retrieve.channels=[dense]"]


def test_a_model_ranks_a_list(collection: Path) -> None:
    with model(backwards) as settings:
        found = search(collection, *settings, *LISTWISE)
    before = ids(search(collection, "retrieve.channels=[dense]"))
    assert ids(found) == [*before[5::-1], *before[6:]]
    assert found.notes == []
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(
    ("decide", "reason"),
    [(lambda _: Reply(503), "HTTP 503"), (saying("They are all fine."), "They are all fine.")],
    ids=["no server", "no ranking"],
)
def test_a_model_that_fails_to_rank_leaves_the_order(
    collection: Path, decide: Decide, reason: str
) -> None:
    with model(decide) as settings:
        found = search(collection, *settings, *LISTWISE)
    plain = search(collection, "retrieve.channels=[dense]")
    assert ids(found) == ids(plain)
    assert [hit.score for hit in found.hits] == [hit.score for hit in plain.hits]
    assert found.notes[0].startswith("listwise_llm failed, and the order before it is used")
    assert reason in found.notes[0]


def test_a_model_says_yes_or_no(collection: Path) -> None:
    def decide(call: dict[str, Any]) -> Reply:
        yes = "colour number 13" in prompt(call)
        return likely({"Yes": -0.1, "No": -3.0} if yes else {"Yes": -3.0, "No": -0.1}, call)

    with model(decide) as settings:
        found = search(collection, *settings, "rerank.kind=pointwise_llm")
    assert "colour number 13" in found.hits[0].text
    assert found.hits[0].score == pytest.approx(1 / (1 + 2.718281828 ** (-3.0 + 0.1)))


def test_a_server_without_likelihoods_leaves_the_order(collection: Path) -> None:
    with model(saying("yes")) as settings:
        found = search(collection, *settings, "rerank.kind=pointwise_llm")
    assert ids(found) == ids(search(collection))
    assert "gives no likelihoods" in found.notes[0]


CASCADE = [
    "rerank.kind=cascade",
    "rerank.candidates=12",
    "rerank.stages=[{kind: cross_encoder, model: 'fake:overlap', keep: 4}, {kind: listwise_llm}]",
]


def test_a_cascade_asks_the_model_about_the_best_of_the_stage_before(collection: Path) -> None:
    first = search(
        collection, *CASCADE[1:2], "rerank.kind=cross_encoder", "rerank.model=fake:overlap"
    )
    with model(backwards) as settings:
        found = search(collection, *settings, *CASCADE)
    assert ids(found) == [*ids(first)[3::-1], *ids(first)[4:]]


def test_after_the_deadline_the_order_so_far_is_used(collection: Path) -> None:
    released = threading.Event()
    with model(lambda _: Reply(wait=released)) as settings:
        start = time.monotonic()
        found = search(collection, *settings, *CASCADE, "rerank.deadline_ms=300")
        assert time.monotonic() - start < 10
        released.set()
    first = search(
        collection, *CASCADE[1:2], "rerank.kind=cross_encoder", "rerank.model=fake:overlap"
    )
    assert ids(found) == ids(first)
    (note,) = found.notes
    assert note.startswith("the time for reranking was over while listwise_llm was at work")


def test_an_answer_says_what_was_searched(collection: Path) -> None:
    with model(saying({"queries": ["roses"]})) as settings:
        engine = Engine.open(collection, None, [*settings, "transform.kind=multi_query"])
        made = asyncio.run(engine.ask("when do tulips bloom"))
    assert made.to_json()["transform"]["queries"] == ["when do tulips bloom", "roses"]
    assert "transform" in made.timings_ms
