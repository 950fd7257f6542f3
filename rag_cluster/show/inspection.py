"""Reports on a collection as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console

from rag_cluster.report import rewritten
from rag_cluster.show import console, table
from rag_cluster.show.ingest import described

Report = dict[str, Any]


def report(content: Report) -> None:
    """Shows a report of `rag_cluster.inspection`."""
    shows: dict[str, Callable[[Console, Report], None]] = {
        "overview": _overview,
        "failures": _failures,
        "duplicates": _duplicates,
        "document": _document,
        "chunks": _chunks,
        "audit": _audit,
        "ingest": _ingest,
    }
    shows[content["report"]](console(), content)


def _ingest(out: Console, content: Report) -> None:
    from rag_cluster.report import readable

    for line in readable(content):
        out.print(line, highlight=False, markup=False, soft_wrap=True)


def _overview(out: Console, content: Report) -> None:
    rows = table("", "")
    documents = content["documents"]
    near = content["near_duplicates"]
    encoder, sparse, facts = content["encoder"], content["sparse"], content["facts"]
    for name, value in (
        ("collection", content["collection"]),
        ("version", f"{content['version']}, made {content['created']}"),
        ("documents", ", ".join(f"{count:,} {status}" for status, count in documents.items())),
        ("near-duplicates", f"{near['documents']:,}" if near else "not looked for"),
        ("chunks", f"{content['chunks']:,}, of them {content['searchable']:,} searchable"),
        ("facts", rewritten(facts) if facts else "none"),
        ("encoder", f"{encoder['model']}, {encoder['dim']} dimensions"),
        ("dense index", content["dense"]["factory"]),
        ("lexical index", content["lexical"]["kind"]),
        ("sparse vectors", described(sparse) if sparse else "none"),
        ("shards", str(content["shards"])),
        ("size", f"{content['bytes'] / 2**20:,.1f} MiB"),
    ):
        rows.add_row(name, str(value))
    out.print(rows, highlight=False)
    for field, count in content["metadata_dropped"].items():
        if count:
            out.print(f"metadata: {count:,} values of {field} are not of its type", highlight=False)
    for reason, count in content["failures"].items():
        out.print(f"failed: {count:,} x {reason}", highlight=False)


def _failures(out: Console, content: Report) -> None:
    if not content["failures"]:
        out.print("no document failed")
        return
    for group in content["failures"]:
        out.print(f"{group['count']:,} {group['status']}: {group['error']}", highlight=False)
        for row in group["documents"][:5]:
            detail = f" ({row['detail']})" if row["detail"] else ""
            out.print(f"    {row['uri']}{detail}", highlight=False, markup=False, soft_wrap=True)
        if group["count"] > 5:
            out.print(f"    and {group['count'] - 5:,} more")


def _duplicates(out: Console, content: Report) -> None:
    once = ", which are not searched" if content["indexed_once"] else ""
    out.print(
        f"{content['documents']:,} documents{once} nearly equal {content['clusters']:,} others",
        highlight=False,
    )
    for cluster in content["duplicates"]:
        out.print(cluster["uri"], highlight=False, markup=False, soft_wrap=True)
        for row in cluster["nearly_equal"]:
            out.print(f"    {row['uri']}", highlight=False, markup=False, soft_wrap=True)


def _document(out: Console, content: Report) -> None:
    row = content["document"]
    rows = table("", "")
    for name in ("uri", "doc_id", "title", "media_type", "status", "error", "detail", "parser"):
        if row[name]:
            rows.add_row(name, str(row[name]))
    if content["duplicate_of"]:
        rows.add_row("nearly equals", content["duplicate_of"]["uri"])
    rows.add_row("pages", str(len(row["pages"] or [])))
    rows.add_row("tables", str(len(row["tables"] or [])))
    rows.add_row("characters", f"{len(row['text'] or ''):,}")
    rows.add_row("metadata", str(row["metadata"]))
    out.print(rows, highlight=False, markup=False)
    for section in row["sections"] or []:
        indent = "  " * section["level"]
        role = "" if section["role"] == "body" else f" ({section['role']})"
        title = section["title"] or "(before the first heading)"
        size = section["end"] - section["start"]
        out.print(f"{indent}{title}{role}, {size:,} characters", highlight=False, markup=False)
    if "chunks" in content:
        _chunks(out, content)


def _chunks(out: Console, content: Report) -> None:
    rows = table("document", ">#", "kind", "pages", ">tokens", "section", "text")
    for row in content["chunks"]:
        pages = "" if row["page_first"] is None else f"{row['page_first']}-{row['page_last']}"
        kind = row["kind"] if row["searchable"] else f"{row['kind']} (parent)"
        text = " ".join(row["text"].split())
        section, name = row["section_path"], row["uri"].rpartition("/")[2]
        rows.add_row(
            name if len(name) < 30 else "..." + name[-27:], str(row["ordinal"]), kind, pages,
            str(row["tokens"]), section if len(section) < 40 else "..." + section[-37:],
            text if len(text) < 60 else text[:57] + "...",
        )  # fmt: skip
    out.print(rows, highlight=False, markup=False)


def _audit(out: Console, content: Report) -> None:
    for problem in content["problems"]:
        where = next(problem[kind] for kind in ("chunk_id", "doc_id", "file") if kind in problem)
        out.print(f"{where}: {problem['problem']}", highlight=False, markup=False)
    count = len(content["problems"])
    out.print(
        f"{content['documents']:,} documents and {content['chunks']:,} chunks of "
        f"{content['version']}: " + (f"{count:,} problems" if count else "no problem found"),
        highlight=False,
    )
