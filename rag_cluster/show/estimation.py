"""What an ingest will take."""

from __future__ import annotations

from typing import Any

from rag_cluster.show import console, table


def estimate(found: dict[str, Any]) -> None:
    """The corpus in a line, and a row for each stage."""
    sample, tokens = found["sample"], found["tokens"]
    facts = f" (of them about {found['facts']:,} facts)" if found["facts"] else ""
    out = console()
    out.print(
        f"{found['files']:,} files ({found['bytes'] / 2**20:,.1f} MiB), of which "
        f"{sample['files']:,} were read ({sample['failed']:,} documents failed): about "
        f"{found['documents']:,} documents, {found['chunks']:,} chunks{facts}, "
        f"{tokens['embed']:,} tokens to embed",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    if tokens["prompts_without_cache"]:
        out.print(
            f"prompts: {tokens['prompts_without_cache']:,} tokens, "
            f"{tokens['prompts_with_cache']:,} to compute with a prefix cache; answers: at most "
            f"{tokens['answers_at_most']:,}; left out of documents beyond the window: "
            f"{tokens['dropped']:,}",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
    rows = table("stage", ">rows", ">tokens", ">worker hours", ">cost")
    for stage in found["stages"]:
        rows.add_row(
            stage["stage"], f"{stage['rows']:,}", f"{stage['tokens']:,}", _known(stage["hours"], 3),
            _known(stage["cost"], 2),
        )  # fmt: skip
    out.print(rows, highlight=False, markup=False)


def _known(value: float | None, digits: int) -> str:
    return "?" if value is None else f"{value:,.{digits}f}"
