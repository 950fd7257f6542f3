"""What every section of the configuration is made of."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A frozen section of the configuration that refuses unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False
    )


def key(default: Any, comment: str, **limits: Any) -> Any:
    """A configuration key with its default, its comment and its limits."""
    return Field(default=default, description=comment, **limits)
