"""The versions of a collection, and what became of them."""

from __future__ import annotations

from typing import Any

from rag_cluster.show import console, table

Report = dict[str, Any]


def listing(report: Report) -> None:
    """One line a version, the current one marked."""
    rows = table("version", "created", ">documents", ">chunks", ">MiB", "")
    for row in report["versions"]:
        note = "current" if row["current"] else ""
        if row["problem"]:
            note = f"{note} {row['problem']}".strip()
        rows.add_row(
            row["version"], row["created"] or "", _count(row["documents"]), _count(row["chunks"]),
            f"{row['bytes'] / 2**20:,.1f}", note,
        )  # fmt: skip
    console().print(rows, highlight=False, markup=False)


def rolled_back(report: Report) -> None:
    """Which version is current now."""
    before = f" (before: {report['before']})" if report["before"] else ""
    console().print(f"{report['version']} is current{before}", highlight=False, markup=False)


def pruned(report: Report) -> None:
    """What was deleted, and what that freed."""
    deleted = ", ".join(report["deleted"]) or "nothing"
    console().print(
        f"deleted {deleted} ({report['bytes'] / 2**20:,.1f} MiB); kept {', '.join(report['kept'])}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def deletion(report: Report) -> None:
    """What was deleted, the proof, and where it still is."""
    out = console()
    for uri in report["deleted"]:
        out.print(f"deleted {uri}", highlight=False, markup=False, soft_wrap=True)
    names = {
        "dense": "rows of the dense index",
        "postings": "rows of the lexical index",
        "sparse": "rows of the sparse index",
    }
    left = ", ".join(f"{count} {names.get(name, name)}" for name, count in report["left"].items())
    out.print(f"left of them in {report['version']}: {left}", highlight=False)
    if report["older_versions"]:
        out.print(
            f"{', '.join(report['older_versions'])} may still hold them: 'rag-cluster prune --keep "
            f"1 --collection {report['collection']}' deletes older versions. Ingesting a source "
            "that has them brings them back.",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
