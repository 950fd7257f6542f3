"""The published version, held open for queries, and exchanged for the next one while they run.

A new version is read beside the old one, checked, and only then asked; the old one is freed when
its last query has ended. A version that cannot be used is refused: the old one goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rag_cluster.answer.opened import Opened
from rag_cluster.answer.opening import Models, check_encoder, query_config_over
from rag_cluster.answer.query import Engine
from rag_cluster.config import Config
from rag_cluster.errors import CollectionError, RagClusterError
from rag_cluster.storage import Collection, current_version, place
from serve.groups import Asks, Groups
from serve.options import Options

log = logging.getLogger(__name__)

KEPT_ENGINES = 32
RETRY_S = 60.0

# Loads what a version's configuration asks for: its models, or handles to them.
MakeModels = Callable[[Config, Collection], Models]


@dataclass
class Version:
    """An opened version with its models; `at_work` counts the queries that use it."""

    opened: Opened
    models: Models
    at_work: int = 0
    replaced: bool = False
    _engines: OrderedDict[str, Engine] = field(default_factory=OrderedDict)

    @property
    def name(self) -> str:
        """The version's name."""
        return self.opened.collection.version

    def engine(self, options: Options) -> Engine:
        """What searches for a request with these options. Raises ConfigError, UsageError."""
        name = json.dumps(options.changes, sort_keys=True)
        if name not in self._engines:
            config, models = options.effective(self.models.config), self.models
            self._engines[name] = Engine(
                self.opened,
                config,
                models.encoder,
                models.scorers(config),
                transformer=models.transformer(config),
            )
            if len(self._engines) > KEPT_ENGINES:
                self._engines.popitem(last=False)
        self._engines.move_to_end(name)
        return self._engines[name]


class Published:
    """The version that queries are answered from."""

    def __init__(
        self,
        path: str | Path,
        settings: Mapping[str, Any],
        make: MakeModels,
        encoder: Callable[[], Awaitable[tuple[int, str]]],
        groups: Sequence[Asks] = (),
    ) -> None:
        """`settings` are a tree over the configuration that made the collection.

        `make` gives a version its models; `encoder` tells the dimension and the revision of the
        encoder that queries get. With `groups`, these have the indexes of the shards.
        """
        self._encoder = encoder
        self.path = place(path)
        self._settings = settings
        self._groups = groups
        self._make = make
        self._version: Version | None = None
        self._refused: dict[str, Any] | None = None
        self._looking = asyncio.Lock()

    async def open(self) -> None:
        """Opens the published version. Raises CollectionError where it cannot be used."""
        self._version = await self._opened(None)

    @contextlib.asynccontextmanager
    async def version(self) -> AsyncIterator[Version]:
        """The version to answer a request from; it stays open until the request has ended."""
        version = self._version
        if version is None:
            raise CollectionError(f"no version of {self.path} is open")
        version.at_work += 1
        try:
            yield version
        finally:
            version.at_work -= 1
            _free(version)

    async def refresh(self) -> bool:
        """Goes over to the published version, if it is another one and can be used."""
        async with self._looking:
            try:
                name = await asyncio.to_thread(current_version, self.path)
            except RagClusterError as error:
                self._refuse("CURRENT", str(error))
                return False
            old = self._version
            if old is not None and name == old.name and not await self._is_another(old):
                self._refused = None
                return False
            if self._refused_lately(name):
                return False
            try:
                new = await self._opened(name)
            except Exception as error:  # noqa: BLE001 - whatever it is, the old version goes on
                foreseen = isinstance(error, RagClusterError)
                self._refuse(name, str(error) or type(error).__name__, None if foreseen else error)
                return False
            self._version, self._refused = new, None
            log.warning("version %s is served now, before it %s", name, old and old.name)
            if old is not None:
                old.replaced = True
                _free(old)
            return True

    async def follow(self, every_s: float) -> None:
        """Looks for a new version for ever."""
        while True:
            await asyncio.sleep(every_s)
            await self.refresh()

    def status(self) -> dict[str, Any]:
        """{"version", "refused": {"version", "reason"} or None}."""
        refused = self._refused
        return {
            "version": None if self._version is None else self._version.name,
            "refused": refused and {name: refused[name] for name in ("version", "reason")},
        }

    async def _opened(self, name: str | None) -> Version:
        version = await asyncio.to_thread(self._read, name)
        if "dense" in version.models.config.retrieve.channels:
            check_encoder(version.opened.collection, *await self._encoder())
        await _check(version)
        return version

    def _read(self, name: str | None) -> Version:
        collection = Collection.open(self.path, name)
        config = query_config_over(collection, self._settings)
        models = self._make(config, collection)
        return Version(Opened(collection, config, self._searched(collection, config)), models)

    def _searched(self, collection: Collection, config: Config) -> Groups | None:
        if not self._groups:
            return None
        return Groups(self._groups, collection.version, config.retrieve.channels)

    async def _is_another(self, old: Version) -> bool:
        """Whether another collection has taken the place of this one, with a version of the name.

        Groups of shards tell versions by their names alone.
        """
        return not self._groups and await asyncio.to_thread(old.opened.collection.is_replaced)

    def _refuse(self, name: str | None, reason: str, error: Exception | None = None) -> None:
        """Keeps why a version is not served, and logs it once; `error` with where it happened."""
        before = self._refused
        if before is None or (before["version"], before["reason"]) != (name, reason):
            log.error("version %s is refused: %s", name, reason, exc_info=error)
        self._refused = {"version": name, "reason": reason, "at": time.monotonic()}

    def _refused_lately(self, name: str | None) -> bool:
        refused = self._refused
        return (
            refused is not None
            and refused["version"] == name
            and time.monotonic() - refused["at"] < RETRY_S
        )


async def _check(version: Version) -> None:
    """Searches for the text of a chunk. Raises CollectionError where that finds nothing."""
    store = version.opened.store
    if not store.searchable:
        return
    words = " ".join(store.passage(0).text.split()[:20])
    if words and not (await version.engine(Options()).search(words, top_k=1)).hits:
        where = version.opened.collection.folder
        raise CollectionError(f"{where}: a search for a passage's own words finds nothing")


def _free(version: Version) -> None:
    if version.replaced and not version.at_work:
        version.opened.close()
