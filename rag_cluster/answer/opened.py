"""An opened version: its chunks, its channels, and which rows a filter lets through."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rag_cluster.answer.channels import Channels, Mask, Scope, Searches
from rag_cluster.config import Config
from rag_cluster.index.filters import parse_filter
from rag_cluster.storage import ChunkStore, Collection

KEPT_MASKS = 64


class Opened:
    """What is read of a version once, and shared by all that search it.

    `config` says which channels are opened, and how; it is the one of `opening.query_config`.
    """

    def __init__(
        self, collection: Collection, config: Config, channels: Searches | None = None,
        shards: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        """`channels` are searched elsewhere, in place of those of all shards, or of `shards`."""
        self.collection = collection
        self.store: ChunkStore = collection.chunks()
        self.channels: Searches = channels or Channels(collection, self.store, config, shards)
        self._fields = collection.fields
        self._roles = config.retrieve.exclude_roles
        self._scopes: dict[str, Scope] = {}

    def close(self) -> None:
        """Closes connections to servers, where there are any."""
        self.channels.close()

    def knows(self, where: Mapping[str, Any] | None) -> bool:
        """Whether it is known already which rows a filter lets through."""
        return _name(where) in self._scopes

    def scope(self, where: Mapping[str, Any] | None) -> Scope:
        """Which searchable rows may be found; the mask is bool [searchable], None for all.

        Raises FilterError for a filter that cannot be used.
        """
        name = _name(where)
        if name not in self._scopes:
            table = self.store.table.slice(0, self.store.searchable)
            roles = table.column("role").to_numpy(zero_copy_only=False)
            mask: Mask = ~np.isin(roles, list(self._roles))
            wanted = parse_filter(where, self._fields)
            if wanted is not None:
                mask &= wanted.mask(table)
            if len(self._scopes) >= KEPT_MASKS:
                self._scopes.pop(next(iter(self._scopes)))
            self._scopes[name] = Scope(None if mask.all() else mask, wanted, where)
        return self._scopes[name]


def _name(where: Mapping[str, Any] | None) -> str:
    return json.dumps(where, sort_keys=True, default=str)
