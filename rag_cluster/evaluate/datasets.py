"""Readers of test collections: queries, relevance judgements (qrels), and TREC runs.

BEIR's layout is `queries.jsonl` with `_id` and `text`, and qrels as tab-separated values with a
header `query-id corpus-id score`, here with an optional column `page`. Qrels of TREC, four columns
without a header, are read too. Every error names the file and the line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from rag_cluster.errors import DatasetError

_COLUMNS = {
    "query": ("query-id", "query_id", "qid"),
    "document": ("corpus-id", "corpus_id", "doc-id", "doc_id", "docid", "document"),
    "page": ("page",),
    "relevance": ("score", "relevance", "rel", "label"),
}
_LAYOUTS = (
    "a header with query-id, corpus-id, score and perhaps page, or four columns of TREC without a "
    "header: query, iteration, document, relevance"
)


@dataclass(frozen=True, slots=True)
class Qrel:
    """One judgement: how relevant a document, or a page of it (from 1), is for a query.

    `corpus_id` is what the file calls the document; `evaluate.matching` finds it in a collection.
    """

    query_id: str
    corpus_id: str
    page: int | None
    relevance: int


@dataclass(frozen=True, slots=True)
class RunLine:
    """One line of a TREC run. `page` is None where documents are ranked."""

    query_id: str
    document: str
    page: int | None
    rank: int
    score: float


def read_queries(path: str | Path) -> dict[str, str]:
    """The texts of the queries by their ids, in the file's order.

    Raises DatasetError for a file that cannot be read or holds no query, and for a line that is not
    a JSON object with the strings `_id` and `text`, or whose id was there before.
    """
    queries: dict[str, str] = {}
    for number, line in _lines(path):
        query_id, text = _query(line, f"{path}, line {number}")
        if query_id in queries:
            raise DatasetError(f"{path}, line {number}: the query id {query_id!r} is there twice")
        queries[query_id] = text
    if not queries:
        raise DatasetError(f"{path} holds no queries")
    return queries


def _query(line: str, where: str) -> tuple[str, str]:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise DatasetError(f"{where} is not JSON: {error.msg} (column {error.colno})") from None
    if not isinstance(record, dict):
        raise DatasetError(f"{where}: a query is a JSON object, not a {type(record).__name__}")
    query_id, text = record.get("_id"), record.get("text")
    if isinstance(query_id, int) and not isinstance(query_id, bool):
        query_id = str(query_id)
    if not isinstance(query_id, str) or not query_id:
        raise DatasetError(f"{where}: a query needs its id in '_id'; there is {query_id!r}")
    if not isinstance(text, str) or not text.strip():
        raise DatasetError(f"{where}: query {query_id!r} needs its words in 'text'")
    return query_id, text


def read_qrels(path: str | Path) -> list[Qrel]:
    """The judgements, in the file's order.

    Raises DatasetError for a file that cannot be read or holds no judgement, and for a line with
    the wrong number of columns, a relevance that is no whole number, a page under 1, or a judgement
    that contradicts an earlier one.
    """
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        raise DatasetError(f"{path} holds no judgements")
    columns = _header(first[1], f"{path}, line {first[0]}")
    rows = lines if columns else iter([first, *lines])
    judged: dict[tuple[str, str, int | None], Qrel] = {}
    for number, line in rows:
        where = f"{path}, line {number}"
        qrel = _qrel_by_header(line, columns, where) if columns else _qrel_of_trec(line, where)
        earlier = judged.setdefault((qrel.query_id, qrel.corpus_id, qrel.page), qrel)
        if earlier.relevance != qrel.relevance:
            raise DatasetError(
                f"{where}: {qrel.corpus_id!r} was judged {earlier.relevance} for query "
                f"{qrel.query_id!r} before, and {qrel.relevance} here"
            )
    if not judged:
        raise DatasetError(f"{path} holds no judgements")
    return list(judged.values())


def _header(line: str, where: str) -> dict[str, int] | None:
    """Where each column stands, or None for a file without a header."""
    names = [name.strip().lower() for name in _split(line)]
    known = {name: column for column, all_names in _COLUMNS.items() for name in all_names}
    found = {known[name]: place for place, name in enumerate(names) if name in known}
    if not found:
        return None
    missing = [_COLUMNS[column][0] for column in ("query", "document") if column not in found]
    if "relevance" not in found:
        missing.append("score")
    if missing:
        raise DatasetError(f"{where}: the header {names} lacks {missing}; qrels have {_LAYOUTS}")
    return {**found, "count": len(names)}


def _qrel_by_header(line: str, columns: Mapping[str, int], where: str) -> Qrel:
    cells = [cell.strip() for cell in _split(line)]
    if len(cells) != columns["count"]:
        raise DatasetError(f"{where}: {len(cells)} columns, but the header has {columns['count']}")
    page = cells[columns["page"]] if "page" in columns else ""
    return Qrel(
        _filled(cells[columns["query"]], "query id", where),
        _filled(cells[columns["document"]], "corpus id", where),
        _page(page, where) if page else None,
        _relevance(cells[columns["relevance"]], where),
    )


def _qrel_of_trec(line: str, where: str) -> Qrel:
    cells = line.split()
    if len(cells) != 4:
        raise DatasetError(f"{where}: {len(cells)} columns; qrels have {_LAYOUTS}")
    return Qrel(cells[0], cells[2], None, _relevance(cells[3], where))


def write_run(
    path: str | Path,
    run: Mapping[str, Sequence[tuple[str, int | None, float]]],
    tag: str = "rag-cluster",
) -> None:
    """Writes a TREC run: `query Q0 document rank score tag`, ranks from 1.

    `run` has, for each query, its documents (or their pages) with scores, best first. White space
    and '%' in an id are percent-encoded, and a page is written behind it as `#page=N`, since the
    format separates columns by white space. Programs that read runs go by the score and not by the
    rank, so a score that is not below the one before it is written a little below it.
    Raises DatasetError where the file cannot be written.
    """
    lines: list[str] = []
    for query_id, ranking in run.items():
        scores = _falling([score for _, _, score in ranking])
        lines.extend(
            f"{_escape(query_id)} Q0 {_name(document, page)} {rank} {score:.9g} {tag}\n"
            for rank, ((document, page, _), score) in enumerate(
                zip(ranking, scores, strict=True), 1
            )
        )
    try:
        Path(path).write_text("".join(lines), encoding="utf-8")
    except OSError as error:
        raise DatasetError(f"cannot write the run {path}: {error.strerror}") from None


def read_run(path: str | Path) -> dict[str, list[RunLine]]:
    """The lines of a TREC run by query, in the file's order; the inverse of `write_run`."""
    run: dict[str, list[RunLine]] = {}
    for number, line in _lines(path):
        cells = line.split()
        try:
            query_id, _, name, rank, score, _ = cells
            document, marker, page = name.rpartition("#page=")
            parsed = RunLine(
                unquote(query_id),
                unquote(document if marker else name),
                int(page) if marker else None,
                int(rank),
                float(score),
            )
        except ValueError:
            raise DatasetError(
                f"{path}, line {number}: a run has six columns: query, Q0, document, rank, score, "
                f"tag; there is {line.strip()!r}"
            ) from None
        run.setdefault(parsed.query_id, []).append(parsed)
    return run


def _name(document: str, page: int | None) -> str:
    return _escape(document) if page is None else f"{_escape(document)}#page={page}"


def _escape(name: str) -> str:
    escaped = "".join(quote(c, safe="") if c.isspace() or c == "%" else c for c in name)
    return escaped.replace("#page=", "%23page=")


def _falling(scores: Sequence[float]) -> list[float]:
    falling: list[float] = []
    for score in scores:
        limit = falling[-1] - 1e-6 * max(1.0, abs(falling[-1])) if falling else score
        falling.append(min(score, limit))
    return falling


def _lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline=None) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path} is not UTF-8: {error.reason}") from None


def _split(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def _filled(cell: str, what: str, where: str) -> str:
    if not cell:
        raise DatasetError(f"{where}: the {what} is empty")
    return cell


def _page(cell: str, where: str) -> int:
    page = _whole(cell)
    if page is None or page < 1:
        raise DatasetError(f"{where}: a page is a whole number from 1, not {cell!r}")
    return page


def _relevance(cell: str, where: str) -> int:
    relevance = _whole(cell)
    if relevance is None:
        raise DatasetError(f"{where}: a relevance is a whole number, not {cell!r}")
    return relevance


def _whole(cell: str) -> int | None:
    try:
        return int(cell)
    except ValueError:
        return None
