"""Lexical shards: BM25 by bm25s, with the whole collection's statistics.

score(q, d) = sum over the terms t of q of idf(t) * tf / (tf + k1 * (1 - b + b * |d| / avgdl)),
idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5)).

This is Lucene's variant of BM25 without its rounded document lengths (Kamphuis, de Vries, Boytsov
and Lin, "Which BM25 do you mean?", ECIR 2020). N, df and avgdl are those of the collection and not
of the shard, so k shards score exactly as one. The scores are computed here, term by document, and
handed to a bm25s.BM25 object, which saves, maps and sums them.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from numpy.typing import NDArray

from rag_cluster.config import Lexical
from rag_cluster.errors import CollectionError, IngestError
from rag_cluster.index import analyzer
from rag_cluster.index.analyzer import language_name, load_analyzer
from rag_cluster.index.topk import Hits, Mask, best_of, check_k, no_hits, searchable_mask

_ANALYZER_FILE = "analyzer.json"


@dataclass(frozen=True, slots=True)
class Statistics:
    """What BM25 knows of a collection; those of its shards add up (`+`, or `merge`).

    `documents` is N, `terms` the sum of the documents' lengths in terms, `document_frequency` the
    number of documents that hold each term.
    """

    documents: int
    terms: int
    document_frequency: Counter[str]

    @property
    def average_length(self) -> float:
        """Terms of a document on average; 0 without documents."""
        return self.terms / self.documents if self.documents else 0.0

    def __add__(self, other: Statistics) -> Statistics:
        return merge([self, other])

    def save(self, path: Path) -> None:
        """Writes JSON; terms in order, so that equal statistics are equal files."""
        tree = {
            "documents": self.documents,
            "terms": self.terms,
            "document_frequency": dict(sorted(self.document_frequency.items())),
        }
        path.write_text(json.dumps(tree, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Statistics:
        """What `save` wrote. Raises CollectionError when it is absent or damaged."""
        tree = _read_json(path)
        try:
            frequency = Counter(tree["document_frequency"])
            return cls(int(tree["documents"]), int(tree["terms"]), frequency)
        except (KeyError, TypeError, ValueError) as error:
            raise CollectionError(f"{path} holds no BM25 statistics: {error!r}") from None


def statistics(texts: Iterable[str], config: Lexical) -> Statistics:
    """The statistics of some documents, with the terms of the configured language."""
    documents = terms = 0
    frequency: Counter[str] = Counter()
    for tokens in load_analyzer(config.language).token_lists(texts):
        documents += 1
        terms += len(tokens)
        frequency.update(set(tokens))
    return Statistics(documents, terms, frequency)


def merge(parts: Iterable[Statistics]) -> Statistics:
    """The statistics of all the parts' documents together."""
    documents = terms = 0
    frequency: Counter[str] = Counter()
    for part in parts:
        documents += part.documents
        terms += part.terms
        frequency.update(part.document_frequency)
    return Statistics(documents, terms, frequency)


def build_shard(texts: Iterable[str], stats: Statistics, config: Lexical) -> LexicalShard:
    """The shard of these documents in a collection with these statistics; row i is the i-th text.

    Raises ValueError when the statistics are not those of a collection that holds the texts.
    """
    vocabulary: dict[str, int] = {}
    occurrences, lengths = array("i"), array("i")
    for tokens in load_analyzer(config.language).token_lists(texts):
        lengths.append(len(tokens))
        occurrences.extend([vocabulary.setdefault(token, len(vocabulary)) for token in tokens])
    retriever = bm25s.BM25(k1=config.k1, b=config.b, method="lucene", backend="numpy")
    retriever.scores = _score_matrix(
        np.frombuffer(occurrences, np.int32) if occurrences else np.empty(0, np.int32),
        np.array(lengths, np.int64),
        _inverse_frequency(vocabulary, stats),
        stats.average_length,
        config,
    )
    retriever.vocab_dict = vocabulary
    retriever.unique_token_ids_set = set(vocabulary.values())
    retriever.nonoccurrence_array = None
    return LexicalShard(retriever, language_name(config.language))


def _inverse_frequency(vocabulary: dict[str, int], stats: Statistics) -> NDArray[np.float64]:
    frequency = np.array([stats.document_frequency[term] for term in vocabulary], np.float64)
    if np.any(frequency < 1) or np.any(frequency > stats.documents):
        raise ValueError("the BM25 statistics do not cover the texts: gather them over all shards")
    return np.log1p((stats.documents - frequency + 0.5) / (frequency + 0.5))


def _score_matrix(
    occurrences: NDArray[np.int32],
    lengths: NDArray[np.int64],
    inverse_frequency: NDArray[np.float64],
    average_length: float,
    config: Lexical,
) -> dict[str, Any]:
    """The matrix documents x terms by columns, as bm25s holds it (data, indices, indptr).

    `occurrences` are the term numbers of all documents, one after another.
    """
    documents, terms = len(lengths), len(inverse_frequency)
    document_of = np.repeat(np.arange(documents, dtype=np.int64), lengths)
    # One number for each (term, document): sorting it gives columns with rising rows.
    pairs, counts = np.unique(
        occurrences.astype(np.int64) * documents + document_of, return_counts=True
    )
    columns, rows = np.divmod(pairs, max(documents, 1))
    relative_length = lengths[rows] / (average_length or 1.0)
    saturation = counts + config.k1 * (1 - config.b + config.b * relative_length)
    scores = inverse_frequency[columns] * counts / saturation
    indptr = np.zeros(terms + 1, np.int64)
    np.cumsum(np.bincount(columns, minlength=terms), out=indptr[1:])
    return {
        "data": scores.astype(np.float32),
        "indices": rows.astype(np.int32),
        "indptr": indptr,
        "num_docs": documents,
    }


class LexicalShard:
    """A shard that is searched. May be used by several threads at once."""

    def __init__(self, retriever: bm25s.BM25, language: str) -> None:
        self._retriever = retriever
        self._language = language

    @property
    def size(self) -> int:
        """The number of documents."""
        return int(self._retriever.scores["num_docs"])

    def save(self, folder: Path) -> None:
        """Writes bm25s's own files (arrays and JSON, no pickles) and the analyzer's language.

        Raises IngestError when the disk refuses.
        """
        about = {"language": self._language, "version": analyzer.VERSION}
        try:
            self._retriever.save(folder, show_progress=False)
            (folder / _ANALYZER_FILE).write_text(json.dumps(about), encoding="utf-8")
        except OSError as error:
            raise IngestError(f"cannot write the lexical index {folder}: {error}") from None

    @classmethod
    def open(cls, folder: Path, config: Lexical) -> LexicalShard:
        """The shard of a folder that `save` wrote, its arrays memory-mapped.

        Raises CollectionError when it is absent or damaged, or was made by another analyzer or with
        another language, k1 or b than `config` says: these are in its scores.
        """
        about = _read_json(folder / _ANALYZER_FILE)
        if about.get("version") != analyzer.VERSION:
            raise CollectionError(
                f"the lexical index {folder} was made with version {about.get('version')} of the "
                f"analyzer, and this program has version {analyzer.VERSION}: ingest again"
            )
        try:
            retriever = bm25s.BM25.load(folder, mmap=True, allow_pickle=False, show_progress=False)
        except (OSError, ValueError, KeyError) as error:
            raise CollectionError(f"the lexical index {folder} cannot be read: {error}") from None
        for name in ("data", "indices", "indptr"):
            # The same mapped memory as a plain array: slices of np.memmap are slow to make.
            retriever.scores[name] = np.asarray(retriever.scores[name])
        made = Lexical(language=about["language"], k1=retriever.k1, b=retriever.b)
        _check_same(folder, made, config)
        return cls(retriever, made.language)

    def search(self, queries: Sequence[str], k: int, mask: Mask | None = None) -> Hits:
        """The best k rows for each query: (float32 [n, k], int64 [n, k]), -inf and -1 beyond them.

        Only rows that score above 0 are hits: a query of which no term occurs has none. `mask` is
        bool [rows] and may go on for rows that are not searchable; ties are ordered by row.
        """
        check_k(k)
        if mask is not None:
            mask = searchable_mask(mask, self.size)
        scores, rows = no_hits(len(queries), k)
        for line, query in enumerate(queries):
            scores[line], rows[line] = self._search_one(query, k, mask)
        return scores, rows

    def search_words(self, words: Mapping[str, float], k: int, mask: Mask | None = None) -> Hits:
        """The best k rows for texts with weights: (float32 [1, k], int64 [1, k]), as `search`.

        Each term of a text adds its BM25 score times the text's weight, so that words of weight 1
        are what their query is.
        """
        check_k(k)
        weights: Counter[int] = Counter()
        for text, weight in words.items():
            for term in self._retriever.get_tokens_ids(load_analyzer(self._language).tokens(text)):
                weights[term] += weight  # type: ignore[assignment] # counts may be fractions
        if not weights:
            return no_hits(1, k)
        matrix = self._retriever.scores
        scores = np.zeros(self.size, np.float32)
        for term, weight in weights.items():
            column = slice(matrix["indptr"][term], matrix["indptr"][term + 1])
            scores[matrix["indices"][column]] += np.float32(weight) * matrix["data"][column]
        if mask is not None:
            scores[~searchable_mask(mask, self.size)] = 0
        return best_of(scores, k)

    def _search_one(self, query: str, k: int, mask: Mask | None) -> Hits:
        tokens = load_analyzer(self._language).tokens(query)
        known = self._retriever.get_tokens_ids(tokens)
        if not known:
            return no_hits(1, k)
        scores = self._retriever.get_scores_from_ids(known)
        if mask is not None:
            scores[~mask] = 0
        return best_of(scores, k)


def _check_same(folder: Path, made: Lexical, asked: Lexical) -> None:
    for key in ("language", "k1", "b"):
        before, now = getattr(made, key), getattr(asked, key)
        if before != now and (key != "language" or before != language_name(now)):
            raise CollectionError(
                f"the lexical index {folder} was made with index.lexical.{key} = {before}, and not "
                f"{now}: search with what made it, or ingest again"
            )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CollectionError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise CollectionError(f"{path} is damaged: {error}") from None
    if not isinstance(tree, dict):
        raise CollectionError(f"{path} is damaged: it holds no JSON object")
    return tree
