"""API keys: who asks, what each may see, and how often each may ask.

A file of keys is YAML, a list of

    - name: analytics               # stands in logs and metrics
      hash: 5e88...                 # SHA-256 of the key, in hexadecimal
      requests_per_minute: 600      # optional
      filter: {tenant: acme}        # optional: enforced on everything that the key asks

Keys are long random strings, so a plain hash of one cannot be turned back by trying.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rag_cluster.errors import ConfigError, FilterError
from rag_cluster.index.filters import parse_filter

PREFIX = "rag-"


@dataclass(frozen=True)
class Caller:
    """Who asks. `where` is the filter that all their requests get."""

    name: str
    where: Mapping[str, Any] | None = None
    requests_per_minute: float | None = None


ANYBODY = Caller("anonymous")


class Keys:
    """The callers by the hashes of their keys."""

    def __init__(self, callers: Mapping[str, Caller]) -> None:
        self._callers = dict(callers)

    @classmethod
    def read(cls, source: str) -> Keys:
        """The keys of a file, or of a variable (`env:NAME`). Raises ConfigError."""
        return cls(_parse(_content(source), source))

    def find(self, key: str) -> Caller | None:
        """The caller with this key."""
        return self._callers.get(hash_of(key))

    def check(self, fields: Mapping[str, str]) -> None:
        """Raises ConfigError where a key's filter names what the collection has not declared."""
        for caller in self._callers.values():
            try:
                parse_filter(caller.where, fields)
            except FilterError as error:
                raise ConfigError(f"the filter of the API key {caller.name!r}: {error}") from None

    def __len__(self) -> int:
        return len(self._callers)


def new_key() -> str:
    """A key of 256 random bits."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class Buckets:
    """How often each caller may ask: a token bucket each, filled evenly, a minute's worth at most.

    `clock` gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}

    def wait_s(self, caller: Caller) -> float:
        """Takes a request from the caller's bucket: 0, or the seconds until there is one."""
        rate = caller.requests_per_minute
        if rate is None:
            return 0.0
        now = self._clock()
        left, then = self._left.get(caller.name, (rate, now))
        left = min(rate, left + (now - then) * rate / 60)
        if left < 1:
            self._left[caller.name] = (left, now)
            return (1 - left) * 60 / rate
        self._left[caller.name] = (left - 1, now)
        return 0.0


def _content(source: str) -> str:
    if source.startswith("env:"):
        name = source.removeprefix("env:")
        content = os.environ.get(name)
        if content is None:
            raise ConfigError(f"service.keys is {source}, but the variable {name} is not set")
        return content
    try:
        return Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read the API keys in {source}: {error}. 'rag-cluster keys add' makes the file"
        ) from None


def _parse(content: str, source: str) -> dict[str, Caller]:
    try:
        rows = yaml.safe_load(content) or []
    except yaml.YAMLError as error:
        raise ConfigError(f"the API keys in {source} are not YAML: {error}") from None
    if not isinstance(rows, list):
        raise ConfigError(f"the API keys in {source} must be a list of keys with name and hash")
    callers: dict[str, Caller] = {}
    for number, row in enumerate(rows, 1):
        digest, caller = _caller(row, f"key {number} of {source}")
        if digest in callers or caller.name in {other.name for other in callers.values()}:
            raise ConfigError(
                f"key {number} of {source}: {caller.name!r} or its hash is there twice"
            )
        callers[digest] = caller
    return callers


def _caller(row: Any, where: str) -> tuple[str, Caller]:
    known = {"name", "hash", "requests_per_minute", "filter"}
    if not isinstance(row, dict) or not {"name", "hash"} <= set(row) <= known:
        raise ConfigError(
            f"{where} must have name and hash, and may have filter and requests_per_minute"
        )
    digest, rate, enforced = str(row["hash"]), row.get("requests_per_minute"), row.get("filter")
    if len(digest) != 64 or set(digest.lower()) - set("0123456789abcdef"):
        raise ConfigError(f"{where}: hash must be the SHA-256 of the key, 64 hexadecimal digits")
    if rate is not None and (not isinstance(rate, int | float) or rate <= 0):
        raise ConfigError(f"{where}: requests_per_minute must be a number above 0, not {rate!r}")
    if enforced is not None and not isinstance(enforced, dict):
        raise ConfigError(f"{where}: filter must be a mapping such as {{tenant: acme}}")
    return digest.lower(), Caller(str(row["name"]), enforced or None, rate)
