"""API keys while the service runs: who asks, how often each may, and whether there must be keys.

What stands in a file of keys is said in `serve.key_file`; it is read again when it has changed.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rag_cluster.config import Config, Service
from rag_cluster.errors import ConfigError
from rag_cluster.index.filters import parse_filter
from serve.key_file import Caller, hash_of, parse_keys, read_keys

__all__ = [
    "ANYBODY",
    "Buckets",
    "Caller",
    "Keys",
    "check_exposure",
    "hash_of",
    "is_loopback",
    "keys_of",
]

# How often the file is looked at: a key that was removed is taken for so long at most.
LOOK_S = 1.0

log = logging.getLogger(__name__)


ANYBODY = Caller("anonymous")
Stamp = tuple[int, int, int]


class Keys:
    """The callers by the hashes of their keys.

    Where they come from a file, that is read again when it has changed. A file that can then not be
    read is logged as an error, and the keys stay as they were; a key whose filter cannot be
    enforced is logged and refused, and what else has changed holds.

    `source` names where they come from in a message.
    """

    def __init__(
        self,
        callers: Mapping[str, Caller],
        file: Path | None = None,
        source: str = "service.keys",
    ) -> None:
        self._callers = dict(callers)
        self._file = file
        self._source = source if file is None else str(file)
        self._stamp = None if file is None else _stamp(file)
        self._next_look = 0.0
        self._config: Config | None = None

    @classmethod
    def read(cls, source: str) -> Keys:
        """The keys of a file, or of a variable (`env:NAME`). Raises ConfigError."""
        if source.startswith("env:"):
            content = _variable(source.removeprefix("env:"))
            return cls(parse_keys(content, source), source=source)
        empty = cls({}, Path(source))  # its stamp is older than what is read
        empty._callers = read_keys(Path(source))
        return empty

    def find(self, key: str) -> Caller | None:
        """The caller with this key."""
        self._look()
        return self._callers.get(hash_of(key))

    def check(self, config: Config) -> None:
        """Raises ConfigError where a key's filter cannot be enforced on such a collection."""
        for caller in self._callers.values():
            reason = _hindrance(caller, config)
            if reason is not None:
                raise ConfigError(f"the API key {caller.name!r} of {self._source}: {reason}")
        self._config = config

    def __len__(self) -> int:
        return len(self._callers)

    def _look(self) -> None:
        if self._file is None or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK_S
        stamp = _stamp(self._file)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            callers = read_keys(self._file)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, requests go on
            log.error("the API keys stay as they were: %s", error)
            return
        self._callers = self._enforceable(callers)
        log.warning("the API keys were read again: %d keys", len(self._callers))

    def _enforceable(self, callers: Mapping[str, Caller]) -> dict[str, Caller]:
        """The callers whose filters can be enforced.

        One that cannot be must not keep the others from changing, least of all a removed key from
        being refused.
        """
        if self._config is None:
            return dict(callers)
        kept: dict[str, Caller] = {}
        for digest, caller in callers.items():
            reason = _hindrance(caller, self._config)
            if reason is None:
                kept[digest] = caller
            else:
                log.error("the API key %r of %s is refused: %s", caller.name, self._source, reason)
        return kept


def keys_of(config: Config) -> Keys | None:
    """The keys of a service, checked; None where everybody may ask.

    Raises ConfigError for keys that cannot be used, and for a service that would be open to other
    machines without any.
    """
    check_exposure(config.service)
    source = config.service.keys
    if source is None:
        return None
    if not source.strip():
        raise ConfigError("service.keys is empty: name a file or env:NAME, or null for none")
    keys = Keys.read(source)
    keys.check(config)
    return keys


def check_exposure(service: Service) -> None:
    """Raises ConfigError for a service that other machines reach and that has no keys."""
    if service.keys is not None or service.allow_anonymous or is_loopback(service.host):
        return
    raise ConfigError(
        f"service.host is {service.host!r}, which other machines reach, and there are no API keys: "
        "everybody could read the whole collection. Make keys with 'rag-cluster keys add' and name "
        "their file in service.keys, or set service.allow_anonymous to true if that is what you "
        "want"
    )


@functools.lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether an address to listen at is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Buckets:
    """How often each caller may ask: a token bucket each, filled evenly, a minute's worth at most.

    `clock` gives seconds. A rate holds for one replica of the HTTP API.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def wait_s(self, caller: Caller) -> float:
        """Takes a request from the caller's bucket: 0, or the seconds until there is one."""
        rate = caller.requests_per_minute
        if rate is None:
            return 0.0
        now, size = self._clock(), max(1.0, rate)
        left, then = self._left.get(caller.name, (size, now))
        left = min(size, left + (now - then) * rate / 60)
        if left < 1:
            self._left[caller.name] = (left, now)
            return (1 - left) * 60 / rate
        self._left[caller.name] = (left - 1, now)
        return 0.0


def _hindrance(caller: Caller, config: Config) -> str | None:
    """Why the key's filter cannot be enforced on such a collection; None where it can be."""
    try:
        enforced = parse_filter(caller.where, config.metadata.fields)
    except Exception as error:  # noqa: BLE001 - what cannot even be checked is not enforced
        return f"its filter cannot be enforced: {error}"
    if enforced is not None and config.duplicates.near == "index_once":
        return (
            "it has a filter, but the collection was made with duplicates.near: index_once: a "
            "document that nearly equals one behind another key's filter would not be found. "
            "Ingest with duplicates.near: mark"
        )
    return None


def _variable(name: str) -> str:
    try:
        content = os.environ.get(name)
    except ValueError:  # half a character
        content = None
    if content is None:
        raise ConfigError(f"service.keys is env:{name}, but the variable {name} is not set")
    return content


def _stamp(file: Path) -> Stamp | None:
    """What changes with a file's content, near enough; None where it is not there."""
    try:
        found = file.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
