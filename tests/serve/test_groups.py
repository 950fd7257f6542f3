"""Shards in groups give what all shards in one place give."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from small_corpus import FAKE

from rag_cluster import config, pipeline
from rag_cluster.answer.opened import Opened
from rag_cluster.answer.opening import Models, query_config_over
from rag_cluster.answer.query import Engine
from rag_cluster.errors import UsageError
from rag_cluster.storage import Collection
from serve.groups import Group, Groups


@pytest.fixture(scope="module")
def sharded(corpus: Path, tmp_path_factory: pytest.TempPathFactory, ray_session: None) -> Path:
    path = tmp_path_factory.mktemp("sharded") / "collection"
    fields = ["metadata.fields={year: int, kind_of: keyword}", "index.shards=3"]
    pipeline.ingest([str(corpus)], path, config.load(None, [*FAKE, *fields]))
    return path


@pytest.mark.parametrize("number", [2, 3, 5])
@pytest.mark.parametrize("where", [None, {"year": {"gte": 2010}}])
def test_groups_find_the_same(sharded: Path, number: int, where: dict[str, Any] | None) -> None:
    collection = Collection.open(sharded)
    effective = query_config_over(collection, {})
    models = Models(effective, collection)
    groups = [Group(str(sharded), {}, at, number) for at in range(number)]
    channels = Groups(groups, collection.version, effective.retrieve.channels)
    one = Engine.of(Opened(collection, effective), models)
    many = Engine.of(Opened(collection, effective, channels), models)

    async def both(query: str) -> tuple[Any, Any]:
        return await one.search(query, where=where), await many.search(query, where=where)

    for query in ("the colour of a star", "garden in May", "pressure limit of the pump"):
        expected, found = asyncio.run(both(query))
        assert found.hits == expected.hits
        assert found.by_channel == expected.by_channel
        assert {"dense", "bm25"} <= set(found.timings_ms)


def test_a_channel_that_is_not_there(sharded: Path) -> None:
    collection = Collection.open(sharded)
    with pytest.raises(UsageError, match="splade"):
        Groups([], collection.version, ["dense"]).check(["splade"])
