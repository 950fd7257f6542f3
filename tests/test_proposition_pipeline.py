"""Ingests in which a language model rewrites chunks as facts: a small chat server, on real Ray."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import chat_server
import pytest
from chat_server import Reply
from small_corpus import FAKE

from rag_cluster import config, inspection, pipeline
from rag_cluster.answer.query import Engine
from rag_cluster.deletion import delete
from rag_cluster.storage import Collection, read_shard

pytestmark = pytest.mark.usefixtures("ray_session")


class Server:
    """Makes a fact of each sentence of a passage; of violins it answers in prose."""

    def __init__(self) -> None:
        self.url = ""
        self.passages: list[str] = []

    def decide(self, call: dict[str, Any]) -> Reply:
        prompt = call["messages"][0]["content"]
        title = prompt.rpartition("Title: ")[2].partition("\n")[0]
        passage = prompt.rpartition("<passage>\n")[2].partition("\n</passage>")[0]
        if len(call["messages"]) == 1:
            self.passages.append(passage)
        if "violins" in passage:
            return chat_server.answer("They are made of wood.", call)
        said = [one for one in passage.replace("\n", " ").split(".") if len(one.split()) > 3]
        facts = [f"{title} says:{one}." for one in said]
        return chat_server.answer(json.dumps({"facts": [*facts, *facts]}), call)


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    with chat_server.serve(made.decide) as made.url:
        yield made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for name, subject in (("a", "whales"), ("b", "glaciers")):
        parts = [
            f"# Part {i}\n\nThe {subject} of year {i} are described here. They weigh {i} tonnes "
            f"as most {subject} do. In {1900 + i} somebody counted them."
            for i in range(3)
        ]
        (folder / f"{name}.md").write_text("\n\n".join(parts))
    (folder / "c.md").write_text(
        "# Music\n\nOld violins are not loud.\n\n"
        "# Pitch\n\n| a | b |\n|---|---|\n| tuning | 440 Hz |\n\n"
        "# Drums\n\nDrums are as loud as can be."
    )
    return folder


def ingest(server: Server, source: Path, path: Path, *settings: str, **options: Any) -> Collection:
    server.passages.clear()
    own = ["chunk.strategy=proposition", "llm.engine=openai", "llm.model=tiny",
           f"llm.base_url={server.url}", "chunk.min_size=0", "chunk.overlap=0"]  # fmt: skip
    pipeline.ingest([str(source)], path, config.load(None, [*FAKE, *own, *settings]), **options)
    return Collection.open(path)


def test_facts_are_searched_and_their_chunks_are_found_and_nothing_is_asked_twice(
    server: Server, source: Path, tmp_path: Path
) -> None:
    path = tmp_path / "c"
    first = ingest(server, source, path)
    # 2 x 3 sections and 3 facts of each; drums; violins fail; a table is not asked for.
    assert first.manifest["facts"] == {"facts": 19, "chunks": 7, "without": 1}
    assert first.manifest["searchable"] == 19 + 2
    assert len(server.passages) == 8
    assert first.manifest["llm"]["written"]["failed"] == 1
    assert inspection.audit(first)["problems"] == []
    assert inspection.last_report(first)["facts"]["without"] == 1
    _searched(path)

    again = ingest(server, source, path)
    assert (again.version, server.passages) == (first.version, [])

    # All is cut and embedded again; asked is for what changed, and for what failed.
    ice = "# Ice\n\nSea ice melts in June and again in July."
    (source / "b.md").write_text(ice)
    other = ingest(server, source, path, "embed.model=fake:32", sync=True)
    assert sorted(server.passages) == [ice, "# Music\n\nOld violins are not loud."]
    assert other.manifest["facts"] == {"facts": 11, "chunks": 5, "without": 1}
    kept = [fact for fact in _facts(first) if not fact.startswith("b >")]
    assert set(kept) < set(_facts(other))
    assert inspection.audit(other)["problems"] == []

    done = delete(path, ["a.md"])
    assert not any(done["left"].values())
    left = Collection.open(path)
    assert left.manifest["facts"] == {"facts": 2, "chunks": 2, "without": 1}
    texts = [row["text"] or "" for shard in range(left.shards) for row in
             read_shard(left.shard_path("generated", shard)).to_pylist()]  # fmt: skip
    assert not any("whales" in text for text in texts)


def _facts(opened: Collection) -> list[str]:
    rows = opened.chunks().table.to_pylist()
    return sorted(row["text"] for row in rows if row["kind"] == "proposition")


def _searched(path: Path) -> None:
    """Each chunk is a hit once, with its own text and the fact that was found."""
    engine = Engine.open(path)
    found = asyncio.run(engine.search("Who counted whales in 1902?", top_k=9))
    ids = [hit.chunk_id for hit in found.hits]
    assert len(set(ids)) == len(ids) == 9  # all that there is
    assert {hit.kind for hit in found.hits} == {"section", "table"}
    best = found.to_json()["hits"][0]
    assert best["text"].startswith("# Part 2\n\nThe whales of year 2")
    assert best["channels"]["bm25"]["fact"] == "a > Part 0 says: In 1902 somebody counted them."
    assert [place["rank"] for place in best["channels"].values()] == [1, 1]
    violins = next(hit for hit in found.hits if "violins" in hit.text)
    assert all(place.fact is None for place in found.by_channel[violins.rank - 1].values())
    # What stands around a chunk is chunks, though these are not searched.
    grounds = asyncio.run(engine.ground("Who counted whales in 1902?", top_k=1))
    (text,) = [source.text for source in grounds.assembly.sources]
    assert text == found.hits[0].text
