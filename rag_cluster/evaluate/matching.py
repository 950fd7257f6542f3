"""Which documents of a collection the corpus ids of qrels mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from rag_cluster.errors import DatasetError
from rag_cluster.evaluate.datasets import Qrel
from rag_cluster.schema import document_id

# A judged item: a document, or a page (from 1) of it.
Item = tuple[str, int | None]


@dataclass(frozen=True)
class Judgements:
    """Qrels in terms of a collection.

    `relevance` has for each query its items; documents that the collection lacks stay in it, under
    their corpus id, for what is relevant and absent is missed. `names` gives the corpus id by which
    the qrels call a document. `unmatched` are the corpus ids that no document has, `paged` are the
    queries that are judged by page.
    """

    relevance: Mapping[str, Mapping[Item, int]]
    names: Mapping[str, str]
    unmatched: Sequence[str]
    paged: frozenset[str]


def match(qrels: Sequence[Qrel], documents: Iterable[tuple[str, str]]) -> Judgements:
    """Finds the documents, given as (doc_id, uri), that the qrels speak of.

    A corpus id is, in this order: a doc_id; the id of a record; a whole uri; the end of a uri's
    path (a file's name, or more of its path); a file's name without its extension.

    Raises DatasetError if no document matches, if a corpus id could mean several documents, or if
    a query is judged by page in one line and by document in another.
    """
    index = _Documents(documents)
    found = {corpus_id: index.find(corpus_id) for corpus_id in {q.corpus_id for q in qrels}}
    unmatched = sorted(corpus_id for corpus_id, doc_id in found.items() if doc_id is None)
    if len(unmatched) == len(found):
        raise DatasetError(
            f"none of the {len(found)} documents of the qrels (such as {unmatched[0]!r}) is in the "
            f"collection, whose documents are called like {index.example!r}: the corpus id must be "
            "a document's id, its record's id, its uri or its file's name"
        )
    relevance: dict[str, dict[Item, int]] = {}
    for qrel in qrels:
        items = relevance.setdefault(qrel.query_id, {})
        item = (found[qrel.corpus_id] or qrel.corpus_id, qrel.page)
        items[item] = max(qrel.relevance, items.get(item, qrel.relevance))
    names = {doc_id: corpus_id for corpus_id, doc_id in sorted(found.items()) if doc_id}
    return Judgements(relevance, names, unmatched, _paged(relevance))


def _paged(relevance: Mapping[str, Mapping[Item, int]]) -> frozenset[str]:
    paged = set()
    for query, items in relevance.items():
        with_page = [page is not None for _, page in items]
        if any(with_page) and not all(with_page):
            raise DatasetError(
                f"query {query!r} of the qrels is judged by page in one line and by document in "
                "another: give all of its lines a page, or none"
            )
        if any(with_page):
            paged.add(query)
    return frozenset(paged)


class _Documents:
    """The documents of a collection by what they may be called."""

    def __init__(self, documents: Iterable[tuple[str, str]]) -> None:
        self._uris: dict[str, str] = {}
        self._by_uri: dict[str, str] = {}
        self._by_name: dict[str, list[str]] = {}
        self._by_stem: dict[str, list[str]] = {}
        for doc_id, uri in documents:
            plain = unquote(uri)
            self._uris[doc_id] = plain
            self._by_uri[uri] = self._by_uri[plain] = doc_id
            name = plain.rpartition("/")[2]
            stem, dot, _ = name.rpartition(".")
            self._by_name.setdefault(name, []).append(doc_id)
            if dot and stem:
                self._by_stem.setdefault(stem, []).append(doc_id)

    @property
    def example(self) -> str:
        """What a document here is called."""
        return next(iter(self._uris.values()), "nothing: it is empty")

    def find(self, corpus_id: str) -> str | None:
        """The doc_id of what the corpus id means."""
        for doc_id in (corpus_id, document_id(corpus_id)):
            if doc_id in self._uris:
                return doc_id
        if corpus_id in self._by_uri:
            return self._by_uri[corpus_id]
        name = corpus_id.rpartition("/")[2]
        ending = [
            doc_id
            for doc_id in self._by_name.get(name, [])
            if name == corpus_id or self._uris[doc_id].endswith("/" + corpus_id)
        ]
        candidates = ending or self._by_stem.get(corpus_id, [])
        if len(candidates) > 1:
            uris = sorted(self._uris[doc_id] for doc_id in candidates)
            raise DatasetError(
                f"the corpus id {corpus_id!r} of the qrels could be any of {len(uris)} documents "
                f"({uris[0]!r}, {uris[1]!r}, ...): give more of the path"
            )
        return candidates[0] if candidates else None
