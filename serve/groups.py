"""The shards' indexes divided among groups, each a deployment; their answers merge to one.

The retriever has the chunks and no index. It asks all groups at once, for the version that it
answers from itself: a group keeps the one before it too, while retrievers go over to the new one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rag_cluster.answer.channels import Lookup, Scope, check_opened, merged
from rag_cluster.answer.found import Timings
from rag_cluster.answer.opened import Opened
from rag_cluster.answer.opening import query_config_over
from rag_cluster.models.together import together
from rag_cluster.retrieve.fuse import Ranking
from rag_cluster.storage import Collection, place

KEPT_VERSIONS = 2

Found = tuple[list[dict[str, Ranking]], Timings]


class Group:
    """Every `groups`-th shard, from the one of this number on, of any version that is asked for."""

    def __init__(
        self, collection: str, settings: Mapping[str, Any], number: int, groups: int
    ) -> None:
        self._path = place(collection)
        self._settings = settings
        self._number = number
        self._groups = groups
        self._versions: OrderedDict[str, Opened] = OrderedDict()
        self._opening = asyncio.Lock()

    async def search(
        self,
        version: str,
        names: Sequence[str],
        lookups: Sequence[Lookup],
        k: int,
        where: Mapping[str, Any] | None,
    ) -> Found:
        """For each lookup the k best rows (of the whole version) of each channel, and the times."""
        opened = await self._opened(version)
        timings: Timings = {}
        scope = opened.scope(where)
        return await opened.channels.search(names, lookups, k, scope, timings), timings

    async def _opened(self, version: str) -> Opened:
        async with self._opening:
            if version not in self._versions:
                self._versions[version] = await asyncio.to_thread(self._read, version)
                if len(self._versions) > KEPT_VERSIONS:
                    _, old = self._versions.popitem(last=False)
                    old.close()
            self._versions.move_to_end(version)
            return self._versions[version]

    def _read(self, version: str) -> Opened:
        collection = Collection.open(self._path, version)
        config = query_config_over(collection, self._settings)
        mine = range(self._number, collection.shards, self._groups)
        return Opened(collection, config, shards=mine)


class Asks(Protocol):
    """A group, or a handle to one."""

    async def search(
        self, version: str, names: Sequence[str], lookups: Sequence[Lookup], k: int,
        where: Mapping[str, Any] | None,
    ) -> Found:  # fmt: skip
        """See `Group.search`."""


class Groups:
    """`answer.channels.Searches` of one version, over groups."""

    def __init__(self, groups: Sequence[Asks], version: str, names: Sequence[str]) -> None:
        self._groups = groups
        self._version = version
        self._names = names

    def check(self, names: Sequence[str]) -> None:
        """Raises UsageError for a channel that was not opened."""
        check_opened(names, self._names)

    async def search(
        self, names: Sequence[str], lookups: Sequence[Lookup], k: int, scope: Scope,
        timings: Timings,
    ) -> list[dict[str, Ranking]]:  # fmt: skip
        """For each lookup the k best rows of each channel; a time is that of the slowest group."""
        asked = (
            group.search(self._version, names, lookups, k, scope.where) for group in self._groups
        )
        found = await together(asked)
        for name in names:
            slowest = max(times.get(name, 0.0) for _, times in found)
            timings[name] = timings.get(name, 0.0) + slowest
        return [
            {name: merged([parts[at][name] for parts, _ in found], k) for name in names}
            for at in range(len(lookups))
        ]

    def close(self) -> None:
        """Groups close what they have themselves."""
