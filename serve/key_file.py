"""A file of API keys: what stands in it, and whether that can be used.

It is YAML, a list of

    - name: analytics               # stands in logs and metrics
      hash: 5e88...                 # SHA-256 of the key, in hexadecimal
      requests_per_minute: 600      # optional
      filter: {tenant: acme}        # optional: enforced on everything that the key asks

Keys are long random strings, so a plain hash of one cannot be turned back by trying.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from rag_cluster.errors import ConfigError
from rag_cluster.index.filters import COMBINATIONS, MAX_DEPTH

MOST_NAME = 64
LEAST_RATE, MOST_RATE = 0.001, 1e9

# A level of and and or is a mapping and a list; then there are an operator and its values.
_MOST_LEVELS = 2 * MAX_DEPTH + 2

# What a chunk has of its own, in which chunks of one document differ.
_OF_CHUNKS = ("kind", "role", "section_path")


@dataclass(frozen=True)
class Caller:
    """Who asks. `where` is the filter that all their requests get."""

    name: str
    where: Mapping[str, Any] | None = None
    requests_per_minute: float | None = None


def hash_of(key: str) -> str:
    """What is kept of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read_keys(file: Path) -> dict[str, Caller]:
    """The callers of a file by the hashes of their keys. Raises ConfigError."""
    try:
        content = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"cannot read the API keys in {file}: it is not UTF-8") from None
    except OSError as error:
        raise ConfigError(
            f"cannot read the API keys in {file}: {error.strerror}. 'rag-cluster keys add' makes "
            "the file"
        ) from None
    except ValueError:  # of a NUL, or of half a character
        raise ConfigError(f"{str(file)!r} cannot be the name of a file of API keys") from None
    return parse_keys(content, str(file))


def parse_keys(content: str, source: str) -> dict[str, Caller]:
    """The callers of a YAML text, which `source` names. Raises ConfigError."""
    try:
        rows = yaml.safe_load(content) or []
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # the text itself is not shown
        line = "" if mark is None else f" in line {mark.line + 1}"
        raise ConfigError(f"the API keys in {source} are not YAML{line}") from None
    except Exception as error:  # noqa: BLE001 - yaml lets through what makes a value raises
        raise ConfigError(
            f"the API keys in {source} are not YAML that can be read ({type(error).__name__}): "
            "look for a date or a number that there cannot be, or lists in lists without end"
        ) from None
    if not isinstance(rows, list):
        raise ConfigError(f"the API keys in {source} must be a list of keys with name and hash")
    callers: dict[str, Caller] = {}
    for number, row in enumerate(rows, 1):
        try:
            digest, caller = _caller(row, f"key {number} of {source}")
        except (ValueError, RecursionError):  # where it is made to text
            raise ConfigError(
                f"key {number} of {source}: a number in it is too long, or it is nested too deep"
            ) from None
        if digest in callers or caller.name in {other.name for other in callers.values()}:
            raise ConfigError(
                f"key {number} of {source}: {caller.name!r} or its hash is there twice"
            )
        callers[digest] = caller
    return callers


def check_name(name: str, where: str) -> str:
    """The name of a key. Raises ConfigError for one that cannot stand in a log."""
    if not name.strip() or not name.isprintable() or len(name) > MOST_NAME:
        raise ConfigError(
            f"{where}: the name must be 1 to {MOST_NAME} printable characters, not {name[:80]!r}"
        )
    return name


def check_rate(rate: Any, where: str) -> float | None:
    """A number of requests per minute. Raises ConfigError."""
    if rate is None:
        return None
    is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if not is_number or not LEAST_RATE <= rate <= MOST_RATE:
        raise ConfigError(
            f"{where}: requests_per_minute must be a number from {LEAST_RATE:g} to "
            f"{MOST_RATE:.0f}; leave it out for a key that may ask without limit"
        )
    return float(rate)


def check_enforced(where: Any, place: str) -> Mapping[str, Any] | None:
    """A filter that is to be enforced. Raises ConfigError where it could not be.

    It decides on whole documents: a condition on what chunks of one document differ in would show
    all of a document for the sake of one chunk.
    """
    if where is None:
        return None
    if not isinstance(where, dict) or not where:
        raise ConfigError(
            f"{place}: filter must be a mapping such as {{tenant: acme}}; leave it out for a key "
            "that may see everything"
        )
    if _is_deeper(where, _MOST_LEVELS):
        raise ConfigError(f"{place}: filter is nested more than {MAX_DEPTH} levels deep")
    for name in _names(where):
        if name in _OF_CHUNKS:
            raise ConfigError(
                f"{place}: filter names {name!r}, in which chunks of one document differ; a key's "
                "filter may name declared fields, doc_id, uri and title"
            )
    return where


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether there are more levels of mappings and lists; one that holds itself has no end."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(levels == 0 or _is_deeper(part, levels - 1) for part in parts)


def _names(where: Any) -> list[str]:
    """The fields that a filter names."""
    if isinstance(where, list):
        return [name for part in where for name in _names(part)]
    if not isinstance(where, dict):
        return []
    names: list[str] = []
    for name, value in where.items():
        combines = str(name).removeprefix("$") in COMBINATIONS
        names += _names(value) if combines else [str(name)]
    return names


def _caller(row: Any, where: str) -> tuple[str, Caller]:
    known = {"name", "hash", "requests_per_minute", "filter"}
    if not isinstance(row, dict) or not {"name", "hash"} <= set(row) <= known:
        raise ConfigError(
            f"{where} must have name and hash, and may have filter and requests_per_minute"
        )
    digest = str(row["hash"]).lower()
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise ConfigError(f"{where}: hash must be the SHA-256 of the key, 64 hexadecimal digits")
    name = check_name(str(row["name"]), where)
    enforced = check_enforced(row.get("filter"), where)
    return digest, Caller(name, enforced, check_rate(row.get("requests_per_minute"), where))
