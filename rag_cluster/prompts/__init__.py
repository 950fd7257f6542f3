"""What language models are asked: templates in NAME.txt beside this file, one for each purpose.

The configuration replaces one by `prompts.NAME`, with its text or with `file:PATH`. In a template
`$name` or `${name}` is a placeholder and `$$` a dollar sign. What is shared by many requests, such
as a document, stands first: an engine with prefix caching computes it once.
"""

from __future__ import annotations

import functools
import string
from collections.abc import Mapping
from pathlib import Path

from rag_cluster.errors import ConfigError

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """The purposes that there are templates for."""
    return sorted(path.stem for path in _FOLDER.glob("*.txt"))


@functools.cache
def default(name: str) -> str:
    """The template that the library brings, without the line break at its end."""
    return (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").rstrip("\n")


def check(name: str, text: str) -> str:
    """The template itself (of `file:PATH` what the file holds).

    Raises ConfigError for a purpose that there is none of, a file that cannot be read, and a
    template that has not the placeholders of the one that it replaces.
    """
    if name not in names():
        raise ConfigError(f"prompts.{name}: no such prompt; there are {', '.join(names())}")
    if text.startswith("file:"):
        path = Path(text.removeprefix("file:")).expanduser()
        try:
            text = path.read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise ConfigError(f"prompts.{name}: cannot read {path}: {reason}") from None
    template = string.Template(text)
    if not template.is_valid():
        raise ConfigError(f"prompts.{name}: a lone $ (write $$ for a dollar sign)")
    wanted = set(string.Template(default(name)).get_identifiers())
    found = set(template.get_identifiers())
    if wanted != found:
        missing = ", ".join(f"${one}" for one in sorted(wanted - found)) or "none"
        unknown = ", ".join(f"${one}" for one in sorted(found - wanted)) or "none"
        raise ConfigError(
            f"prompts.{name}: placeholders missing: {missing}; unknown here: {unknown}"
        )
    return text


def render(replaced: Mapping[str, str], name: str, **values: str) -> str:
    """The prompt of a purpose: the configuration's template, else the default one, filled in."""
    return string.Template(replaced.get(name) or default(name)).substitute(values)
