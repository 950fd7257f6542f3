"""Questions as files that `evaluate` reads: queries (JSONL) and qrels (TSV).

A qrel judges by page where the source has pages, else by document. The span of the chunk in its
document's text stands in two columns more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rag_cluster.answer.evidence import best_quote
from rag_cluster.answer.sources import Source
from rag_cluster.errors import UsageError
from rag_cluster.schema import make_id
from rag_cluster.storage import Collection, read_shard
from rag_cluster.storage.files import write_text

COLUMNS = ("query-id", "corpus-id", "page", "start", "end", "score")


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its answer, the chunk they come from, and the chunk's shard and stratum."""

    text: str
    answer: str
    source: Source
    shard: int
    stratum: str

    @property
    def query_id(self) -> str:
        """The same for a chunk in each run; a chunk has one question."""
        return "q" + make_id("question", self.source.parts[0].chunk_id)[:12]


def write(
    collection: Collection,
    questions: Sequence[Question],
    queries: Path,
    qrels: Path,
    by: str | None,
) -> None:
    """Writes both files, each whole or not at all. Raises UsageError where one cannot be."""
    names = corpus_ids(collection, [question.source for question in questions])
    lines, rows = [], ["\t".join(COLUMNS)]
    for question in questions:
        source = question.source
        row = _row(collection, question, names[source.doc_id], by)
        lines.append(json.dumps(row, ensure_ascii=False))
        page = row["sources"][0].get("page", "")
        rows.append(
            f"{question.query_id}\t{names[source.doc_id]}\t{page}\t{source.start}\t{source.end}\t1"
        )
    for path, text in ((qrels, rows), (queries, lines)):
        try:
            write_text(path, "".join(f"{line}\n" for line in text))
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _row(collection: Collection, question: Question, name: str, by: str | None) -> dict[str, Any]:
    source = question.source
    start, end = best_quote(source, f"{question.text} {question.answer}")
    place: dict[str, Any] = {"document": name}
    page = page_of(collection, question.shard, source, start)
    if page is not None:
        place["page"] = page
    place |= {
        "uri": source.uri,
        "doc_id": source.doc_id,
        "chunk_id": source.parts[0].chunk_id,
        "section": source.section,
        "start": source.start,
        "end": source.end,
        "quote": source.text[start:end],
    }
    row = {"_id": question.query_id, "text": question.text, "answer": question.answer}
    return row | ({by: question.stratum} if by else {}) | {"sources": [place]}


def page_of(collection: Collection, shard: int, source: Source, at: int) -> int | None:
    """The page (from 1) on which `source.text[at]` stands; None for a document without pages."""
    if source.pages is None or source.pages[0] == source.pages[1]:
        return None if source.pages is None else source.pages[0]
    found = read_shard(
        collection.shard_path("documents", shard),
        columns=["pages"],
        filters=[("doc_id", "=", source.doc_id)],
    )
    place = source.start + at
    for page in found["pages"][0].as_py() or []:
        if page["start"] <= place < page["end"]:
            return int(page["number"])
    return source.pages[0]


def corpus_ids(collection: Collection, sources: Sequence[Source]) -> Mapping[str, str]:
    """What qrels call each document: its file's name where no other has it, else its doc_id.

    A file's name holds wherever the corpus lies; a doc_id is that of one place.
    """
    names = {source.doc_id: unquote(source.uri).rpartition("/")[2] for source in sources}
    wanted, known = set(names.values()), Counter[str]()
    for shard in range(collection.shards):
        uris = read_shard(collection.shard_path("documents", shard), columns=["uri"])["uri"]
        found = (unquote(uri).rpartition("/")[2] for uri in uris.to_pylist())
        known.update(name for name in found if name in wanted)
    return {
        doc_id: name if known[name] == 1 and name == " ".join(name.split()) else doc_id
        for doc_id, name in names.items()
    }
