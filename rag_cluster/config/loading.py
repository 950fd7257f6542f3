"""Reading a configuration: YAML, settings over it, and errors that name the nearest key."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from rag_cluster.config.section import Section
from rag_cluster.config.sections import Config
from rag_cluster.errors import ConfigError


def load(
    path: str | Path | None = None,
    settings: Sequence[str] = (),
    base: Mapping[str, Any] | None = None,
) -> Config:
    """The configuration of a YAML file, with settings `key.path=VALUE` (YAML values) over it.

    `base` is a tree that both stand over, such as the one that a collection was made with; without
    it that is the defaults. Raises ConfigError that names the key, what is wrong with it and the
    nearest known key.
    """
    return over(base or {}, read_tree(path, settings))


def read_tree(path: str | Path | None = None, settings: Sequence[str] = ()) -> dict[str, Any]:
    """What a YAML file and the settings over it say, not checked yet. Raises ConfigError."""
    tree = _read(Path(path)) if path is not None else {}
    for setting in settings:
        _assign(tree, setting)
    return tree


def over(base: Mapping[str, Any], tree: Mapping[str, Any]) -> Config:
    """The configuration of a tree that stands over another one. Raises ConfigError."""
    return build(_merged(base, tree))


def build(tree: Mapping[str, Any]) -> Config:
    """The configuration of a nested mapping. Raises ConfigError."""
    try:
        return Config.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(_explain(error)) from None


def fingerprint(*sections: Section | str) -> str:
    """Twelve hexadecimal digits that name the settings; equal settings, equal digits."""
    dumps = [s if isinstance(s, str) else s.model_dump(mode="json") for s in sections]
    data = json.dumps(dumps, sort_keys=True, ensure_ascii=False).encode()
    return hashlib.blake2b(data, digest_size=6).hexdigest()


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for name, value in over.items():
        below = result.get(name)
        # `metadata.fields` is a value of its own: naming some fields must not keep others.
        both = isinstance(below, Mapping) and isinstance(value, Mapping) and name != "fields"
        result[name] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return result


def _read(path: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not YAML: {error}") from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(
            f"{path} must hold sections such as 'chunk:', not a {type(tree).__name__}"
        )
    return tree


def _assign(tree: dict[str, Any], setting: str) -> None:
    name, equals, value = setting.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"--set {setting!r}: write key.path=VALUE, such as chunk.size=200")
    if not value.strip():  # such as a variable of the shell that is not set
        raise ConfigError(
            f"--set {setting!r} has no value: write null for none, or '' for an empty text"
        )
    *parents, last = name.strip().split(".")
    for parent in parents:
        child = tree.setdefault(parent, {})
        if not isinstance(child, dict):
            raise ConfigError(f"--set {setting!r}: {parent!r} is a value, not a section")
        tree = child
    try:
        tree[last] = yaml.safe_load(value)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"--set {setting!r}: {value!r} is not a YAML value") from None


def _explain(error: ValidationError) -> str:
    return "; ".join(_explain_one(dict(item)) for item in error.errors())


def _explain_one(item: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"unknown configuration key {path!r}; {_nearest(item['loc'])}"
    message = str(item["msg"]).removeprefix("Value error, ")
    return f"configuration key {path!r}: {message} (got {item['input']!r})" if path else message


def _nearest(location: tuple[int | str, ...]) -> str:
    section: type[Section] = Config
    for part in location[:-1]:
        field = section.model_fields.get(str(part))
        if field is None or not (
            isinstance(field.annotation, type) and issubclass(field.annotation, Section)
        ):
            break
        section = field.annotation
    wrong = str(location[-1])
    known = [".".join(path) for path in _paths(Config)]
    prefix = ".".join(str(part) for part in location[:-1])
    here = [f"{prefix}.{name}" if prefix else name for name in section.model_fields]
    full = f"{prefix}.{wrong}" if prefix else wrong
    near = difflib.get_close_matches(full, here, n=1) or difflib.get_close_matches(full, known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"known here: {', '.join(here)}"


def _paths(section: type[Section]) -> list[list[str]]:
    found: list[list[str]] = []
    for name, field in section.model_fields.items():
        found.append([name])
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            found.extend([name, *rest] for rest in _paths(field.annotation))
    return found
