"""The API keys of a file."""

from __future__ import annotations

import json
from typing import Any

from rag_cluster.show import console, table


def listing(report: dict[str, Any]) -> None:
    """One line a key: its name, what it may see and how often it may ask."""
    rows = table("name", ">requests/minute", "filter")
    for key in report["keys"]:
        rate, where = key["requests_per_minute"], key["filter"]
        rows.add_row(
            key["name"],
            "any" if rate is None else f"{rate:,g}",
            "" if where is None else json.dumps(where, ensure_ascii=False, default=str),
        )
    console().print(rows, highlight=False, markup=False)
