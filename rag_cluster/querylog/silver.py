"""Logged queries as files that `evaluate` reads.

What an answer cited counts as relevant (relevance 1): a silver standard, made by the system that it
is to measure and judged by nobody. It tells whether a change still finds what answers were made
from; which of two systems is better it does not tell, for what was never shown cannot be in it.
What was shown and not cited goes into a file of its own, for people to judge.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rag_cluster.errors import UsageError
from rag_cluster.querylog.reading import Line, normal
from rag_cluster.schema import make_id

FILES = ("queries.jsonl", "qrels.tsv", "unjudged.tsv")
COLUMNS = ("query-id", "corpus-id", "page", "score", "source", "uri")

# A judged document, or a page of it, and the uri that people know it by.
Place = tuple[str, int | None, str]


@dataclass
class Asked:
    """A question: the last line in which it was answered with citations, or the last at all."""

    line: Line
    times: int = 0

    def take(self, line: Line) -> None:
        """Counts another time that it was asked."""
        self.times += 1
        if line.get("cited") or not self.line.get("cited"):
            self.line = line


def to_queries(lines: Iterable[tuple[datetime, Line]], folder: Path) -> dict[str, Any]:
    """Writes queries.jsonl, qrels.tsv and unjudged.tsv, and says how many of what.

    Failed queries are left out, and equal questions stand there once. Raises UsageError where no
    line has a question's text, one of the files exists, or they cannot be written.
    """
    for path in (folder / name for name in FILES):
        if os.path.lexists(path):  # people judge in them
            raise UsageError(f"{path} exists: name another folder, or delete it")
    asked: dict[str, Asked] = {}
    left: Counter[str] = Counter()
    for _, line in lines:
        question = line.get("question", "")
        if line["status"] >= 400:
            left["failed"] += 1
        elif not question.strip():
            left["without_text"] += 1
        else:
            asked.setdefault(normal(question), Asked(line)).take(line)
    if not asked:
        raise UsageError(
            f"no question can be taken from these lines ({left['without_text']:,} have no text, "
            f"{left['failed']:,} failed): the text is logged where service.log.text is set"
        )
    queries, silver, shown, without_page = _rows(asked.values())
    header = "\t".join(COLUMNS)
    rows = [json.dumps(row, ensure_ascii=False) for row in queries]
    for name, content in zip(FILES, (rows, [header, *silver], [header, *shown]), strict=True):
        _write(folder / name, content)
    return {
        "folder": str(folder),
        "queries": len(queries),
        "silver_queries": sum(row["judgements"] == "silver" for row in queries),
        "silver_judgements": len(silver),
        "unjudged": len(shown),
        "duplicates": sum(one.times for one in asked.values()) - len(asked),
        "with_filter": sum("filter" in row for row in queries),
        "failed": left["failed"],
        "without_text": left["without_text"],
        "without_page": without_page,
    }


def _rows(asked: Iterable[Asked]) -> tuple[list[dict[str, Any]], list[str], list[str], int]:
    """Queries, judgements, what is to be judged, and how many places cannot be.

    A query is judged by page where all that was cited has one. What was shown and has no pages
    cannot be judged then: `evaluate` takes pages or documents of a query.
    """
    queries: list[dict[str, Any]] = []
    silver: list[str] = []
    shown: list[str] = []
    without_page = 0
    for one in asked:
        line = one.line
        query_id = "q" + make_id("logged", normal(line["question"]))[:12]
        cited = [(place["doc_id"], place["page"], place["uri"]) for place in line.get("cited", ())]
        found = [
            (chunk["doc_id"], chunk["pages"] and chunk["pages"][0], chunk["uri"])
            for chunk in line.get("chunks", ())
        ]
        paged = all(page is not None for _, page, _ in cited or found)
        judged = _places(cited, paged=paged)
        rest = [place for place in _places(found, paged=paged) if place not in judged]
        fits = [place for place in rest if not paged or place[1] is not None]
        without_page += len(rest) - len(fits)
        silver += [_row(query_id, place, "1", "cited") for place in judged]
        shown += [_row(query_id, place, "", "shown") for place in fits]
        query = {"_id": query_id, "text": line["question"].strip(), "asked": one.times}
        query["judgements"] = "silver" if judged else "none"
        if where := _filter_of(line):
            query["filter"] = where
        queries.append(query)
    return queries, silver, shown, without_page


def _places(places: Sequence[Place], *, paged: bool) -> list[Place]:
    """Without repeats; a query is judged by page throughout, or by document."""
    return list(dict.fromkeys((doc, page if paged else None, uri) for doc, page, uri in places))


def _row(query_id: str, place: Place, score: str, source: str) -> str:
    doc_id, page, uri = place
    named = " ".join(str(uri).split())
    return "\t".join([query_id, doc_id, "" if page is None else str(page), score, source, named])


def _filter_of(line: Line) -> Mapping[str, Any] | None:
    where: Mapping[str, Any] | None = line.get("options", {}).get("filter")
    return where


def _write(path: Path, lines: Sequence[str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
