"""Printing a configuration, so that `load()` reads it back."""

from __future__ import annotations

import yaml

from rag_cluster.config.section import Section
from rag_cluster.config.sections import Config


def render(config: Config) -> str:
    """The effective configuration as YAML, each key with its comment; `load()` reads it back."""
    return "\n".join(_render(config, 0)) + "\n"


def _render(section: Section, depth: int) -> list[str]:
    lines: list[str] = []
    pad = "  " * depth
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        lines.append(f"{pad}# {field.description}")
        if isinstance(value, Section):
            lines.append(f"{pad}{name}:")
            lines.extend(_render(value, depth + 1))
        else:
            plain = section.model_dump(mode="json", include={name})[name]
            text = yaml.safe_dump(
                plain, default_flow_style=True, allow_unicode=True, width=float("inf")
            )
            lines.append(f"{pad}{name}: {text.removesuffix('...' + chr(10)).strip()}")
    return lines
