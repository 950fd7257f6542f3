"""What one request may set, and the configuration that it makes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rag_cluster import config as configuration
from rag_cluster.answer.conversation import Turn
from rag_cluster.config import Config


@dataclass(frozen=True)
class Options:
    """The settings of one request; None is what the service is configured with.

    `where` is the filter of the request and of its key together. `earlier` are the turns of a
    conversation before the question, which is made one that needs none of them. `deadline` is the
    time (seconds since the epoch) by which it must be answered: a clock that all machines of a
    cluster share.
    """

    top_k: int | None = None
    where: Mapping[str, Any] | None = None
    channels: tuple[str, ...] | None = None
    transform: str | None = None
    rerank: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    earlier: tuple[Turn, ...] = ()
    deadline: float | None = None

    @property
    def left_s(self) -> float | None:
        """Seconds until the deadline, not below 0; None without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.time())

    @property
    def changes(self) -> dict[str, Any]:
        """The configuration's keys that this request sets, as a tree."""
        flat = {
            ("retrieve", "channels"): None if self.channels is None else list(self.channels),
            ("transform", "kind"): self.transform,
            ("rerank", "kind"): self.rerank,
            ("generate", "max_tokens"): self.max_tokens,
            ("generate", "temperature"): self.temperature,
        }
        tree: dict[str, Any] = {}
        for (section, name), value in flat.items():
            if value is not None:
                tree.setdefault(section, {})[name] = value
        return tree

    def effective(self, config: Config) -> Config:
        """The configuration with the settings of this request. Raises ConfigError."""
        changes = self.changes
        if not changes:
            return config
        return configuration.build(_over(config.model_dump(mode="json"), changes))


def _over(tree: dict[str, Any], changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return tree | {section: tree[section] | dict(values) for section, values in changes.items()}


def both(
    enforced: Mapping[str, Any] | None, asked: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """The filter that lets through what both do."""
    if not enforced or not asked:
        return enforced or asked or None
    return {"and": [enforced, asked]}


def conditions(where: Mapping[str, Any] | None) -> int:
    """How many conditions and combinations a filter has: each costs a look at all chunks."""
    count = 0
    left: list[Any] = [where]
    while left:
        one = left.pop()
        if isinstance(one, Mapping):
            count += len(one)
            left += one.values()
        elif isinstance(one, list):
            left += [part for part in one if isinstance(part, Mapping)]
    return count
