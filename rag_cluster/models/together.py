"""Calls that do not depend on each other, made at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

Result = TypeVar("Result")


async def together(calls: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results in the order of the calls; the first error ends the other calls and is raised."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
