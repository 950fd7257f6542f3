"""Lines of a query log, and what they sum up to."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from rag_cluster.show import console, table

Report = dict[str, Any]


def line(time: datetime, row: Report) -> str:
    """A query on one line: when it ended, what it was, how it ended, how long it took."""
    hits = "" if row.get("hits") is None else f"{row['hits']} hits"
    question = row.get("question", f"#{row.get('question_hash')}")
    problem = f"{row['code']}: " if row.get("code") else ""
    flagged = ",".join(
        rule
        for rule, verdict in row.get("guardrails", {}).items()
        if verdict.get("status") in ("flagged", "blocked")
    )
    told = f"{problem}{_printable(str(question))}" + (f" [{flagged}]" if flagged else "")
    return (
        f"{time.astimezone():%Y-%m-%d %H:%M:%S} {row['route']:<6} {row['status']} "
        f"{row['seconds'] * 1e3:>9,.1f} ms {hits:>8}  {row.get('key')}  {told}"
    )


def _printable(text: str) -> str:
    """On one line, and without what a terminal would take for a command."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def summary(report: Report) -> None:
    """Counts, and a row for each stage."""
    out = console()
    if not report["queries"]:
        out.print("no query fits")
        return
    out.print(
        f"{report['queries']:,} queries, {report['questions']:,} different questions, "
        f"{report['errors']:,} errors, {report['empty']:,} found nothing",
        highlight=False,
    )
    out.print(f"from {report['first']} to {report['last']}", highlight=False)
    for name, counts in report["by"].items():
        told = ", ".join(f"{value} {count:,}" for value, count in counts.items())
        out.print(f"by {name}: {told}", highlight=False, markup=False, soft_wrap=True)
    rows = table("stage", ">queries", ">p50 ms", ">p95 ms", ">p99 ms")
    for stage, figures in report["stages_ms"].items():
        rows.add_row(
            stage, f"{figures['count']:,}",
            *(f"{figures[name]:,.1f}" for name in ("p50", "p95", "p99")),
        )  # fmt: skip
    out.print(rows, highlight=False, markup=False)


def evaluation_set(report: Report) -> None:
    """What was written, and what its judgements are worth."""
    out = console()
    out.print(
        f"{report['queries']:,} queries in {report['folder']}/queries.jsonl "
        f"({report['duplicates']:,} repeats left out)\n"
        f"{report['silver_judgements']:,} silver judgements of {report['silver_queries']:,} "
        "queries in qrels.tsv: what answers cited, judged by nobody\n"
        f"{report['unjudged']:,} places in unjudged.tsv: what was shown and not cited; fill in "
        "the score and append them to the qrels",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    notes = {
        "with_filter": "queries were asked with a filter, which evaluate does not set",
        "failed": "failed queries were left out",
        "without_text": "queries were left out, whose text was not logged",
        "without_page": "places without pages were left out of queries that are judged by page",
    }
    for name, note in notes.items():
        if report[name]:
            out.print(f"note: {report[name]:,} {note}", highlight=False, soft_wrap=True)
