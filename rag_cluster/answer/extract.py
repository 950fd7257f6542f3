"""The extractive generator: the sentences of the passages that answer, and no model that writes.

A sentence's score is the cosine of its vector and the question's, the share of the question's
words that it holds (stemmed as the index stems them, weighted by their rarity among the
candidates), the rank of its passage, and whether it holds a number where the question asks for one.
Sentences are then picked by maximal marginal relevance (Carbonell and Goldstein, 1998), so that
none repeats another.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rag_cluster.answer.guardrails.injection import instructions
from rag_cluster.answer.sentences import split_units
from rag_cluster.answer.sources import NOTHING_FOUND, Source, without_markers
from rag_cluster.answer.tables import read_row
from rag_cluster.answer.words import content_words, has_cjk, words
from rag_cluster.index.analyzer import load_analyzer
from rag_cluster.models.ports import AsyncEncoder, Vectors

MAX_CANDIDATES = 24
_MIN_WORDS = 3
_MAX_CHARACTERS = 700
_LEXICAL, _RANK, _ASKED = 0.35, 0.1, 0.1  # weights beside the similarity's 1
_DIVERSITY = 0.3
_UNSHARED_MARGIN = 0.15
_KEEP = 0.85  # a further sentence must score this share of the best one's score

_QUESTION_MARKS = ("?", "\uff1f")
_NUMBERING = re.compile(r"^(\d+(\.\d+)*\.?|[A-Z]\.)\s+")
_ASKS_FOR_NUMBER = re.compile(
    r"\b(how (many|much|long|old|far|fast|often|large|big|high|deep|heavy|hot|wide|tall)|when|"
    r"what (year|date|time|percentage|share|number|amount)|which year|"
    r"wie ?(viele?|lange?|oft|hoch|groß|schwer|alt|weit)|wann|combien|quand|cuánt[oa]s?|cuándo)\b"
    r"|多少|几|幾|何时|何時|多久|什么时候|いつ|いくつ|いくら|얼마|언제|몇",
    re.IGNORECASE,
)
_HAS_NUMBER = re.compile(
    r"\d|[一二三四五六七八九十百千万]|\b(one|two|three|four|five|six|seven|eight|nine|ten|eleven|"
    r"twelve|twenty|thirty|forty|fifty|hundred|thousand|million|zwei|drei|vier|fünf|sechs|sieben|"
    r"acht|neun|zehn|zwölf|hundert|tausend|January|February|April|June|July|August|September|"
    r"October|November|December)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence or table row: `source.text[start:end]`, and how it reads on its own."""

    source: Source
    start: int
    end: int
    text: str  # a row with its header cells; else the sentence on one line
    context: str  # the heading or the question that it stands under; not shown


@dataclass(frozen=True, slots=True)
class Pick:
    """A chosen candidate, its score and its similarity to the question."""

    candidate: Candidate
    score: float
    similarity: float


async def extract(
    question: str,
    sources: Sequence[Source],
    encoder: AsyncEncoder,
    *,
    most: int = 3,
    min_similarity: float = 0.35,
    language: str = "english",
) -> list[Pick]:
    """At most `most` picks in readable order; none where no sentence is similar enough.

    Sources follow their best pick, and sentences of one source the document's order. The
    encoder reads at most 24 candidates, in one call.
    """
    every = [candidate for source in sources for candidate in candidates(source)]
    found = prefilter(question, every, language)
    if not found:
        return []
    asked = await encoder.encode([question], "query")
    texts = [f"{c.context}: {c.text}" if c.context else c.text for c in found]
    vectors = _unit(await encoder.encode(texts, "passage"))
    similarity = vectors @ _unit(asked)[0]
    shared = overlaps(question, found, language)
    weak = similarity < _floors(question, found, shared, min_similarity)
    if weak.all():
        return []
    scores = similarity + _LEXICAL * shared
    scores += _RANK * _rank_prior(found) + _ASKED * _asked(question, found)
    scores[weak] = -np.inf
    chosen = _diverse(scores, vectors, most)
    picks = [Pick(found[i], float(scores[i]), float(similarity[i])) for i in chosen]
    return _in_reading_order(picks)


def render(picks: Sequence[Pick]) -> list[str]:
    """Each pick with its marker; the sentence that says so where there is none."""
    if not picks:
        return [NOTHING_FOUND]
    found = [pick.candidate for pick in picks]
    return [f"{without_markers(one.text)} [{one.source.marker}]" for one in found]


def candidates(source: Source) -> list[Candidate]:
    """The sentences and rows of a source that can stand as an answer.

    Headings, questions, code and header rows cannot; they are the context of what follows. What
    reads like an instruction to a model answers nothing.
    """
    units = split_units(source.text)
    titles = {_plain(part) for part in [source.title, *source.section.split(" > ")]}
    context = source.section.rpartition(" > ")[2] or source.title
    found: list[Candidate] = []
    for number, unit in enumerate(units):
        start = unit.start
        line, _, rest = source.text[start : unit.end].partition("\n")
        if rest and unit.kind == "sentence" and _plain(line) in titles:
            context = line.strip()
            start = unit.end - len(rest.lstrip())
        text = " ".join(source.text[start : unit.end].split())
        if unit.kind == "heading" or _plain(text) in titles or text.endswith(_QUESTION_MARKS):
            context = text.strip("#*_ ")
            continue
        if unit.kind == "row":
            text = read_row(source.text, units, number, source.header)
        if unit.kind in ("sentence", "row") and _stands_alone(text) and not instructions(text):
            found.append(Candidate(source, start, unit.end, text, context))
    return found


def _plain(title: str) -> str:
    """A title without marks and number, to know it again: "## 3.2 Scope" -> "scope"."""
    return _NUMBERING.sub("", title.strip("#*_ ")).strip().casefold()


def _stands_alone(text: str) -> bool:
    return len(words(text)) >= _MIN_WORDS and len(text) <= _MAX_CHARACTERS


def prefilter(
    question: str, found: Sequence[Candidate], language: str = "english"
) -> list[Candidate]:
    """The 24 candidates with most of the question's words and rank, in their given order."""
    if len(found) <= MAX_CANDIDATES:
        return list(found)
    value = (
        overlaps(question, found, language) + _rank_prior(found) + _ASKED * _asked(question, found)
    )
    best = np.argsort(-value, kind="stable")[:MAX_CANDIDATES]
    return [found[i] for i in sorted(best)]


def overlaps(
    question: str, found: Sequence[Candidate], language: str = "english"
) -> NDArray[np.float64]:
    """For each candidate the share of the question's content words that it or its context holds.

    A word weighs ln(1 + n / df), with n candidates, df of which hold it; a word that none holds
    weighs ln(1 + n). float64 [len(found)], in [0, 1].
    """
    analyzer = load_analyzer(language)
    asked = sorted(set(analyzer.tokens(" ".join(sorted(content_words(question))))))
    holds = [set(analyzer.tokens(f"{c.context} {c.text}")) for c in found]
    frequency = Counter(word for held in holds for word in held)
    weights = {word: math.log(1 + len(found) / max(1, frequency[word])) for word in asked}
    total = sum(weights.values()) or 1.0
    return np.array(
        [sum(weights[word] for word in asked if word in held) / total for held in holds]
    )


def _floors(
    question: str,
    found: Sequence[Candidate],
    shared: NDArray[np.float64],
    min_similarity: float,
) -> NDArray[np.float64]:
    """The similarity that each candidate must have.

    One that shares no word with the question needs more of it. Chinese, Japanese or Korean
    sentences that share no bigram with a question in those scripts are none: encoders that were
    not trained on them find all of them alike.
    """
    unshared = [
        np.inf if has_cjk(question) and has_cjk(c.text) else min_similarity + _UNSHARED_MARGIN
        for c in found
    ]
    return np.where(shared > 0, min_similarity, np.array(unshared))


def _rank_prior(found: Sequence[Candidate]) -> NDArray[np.float64]:
    return np.array([1 / (1 + c.source.strength) for c in found])


def _asked(question: str, found: Sequence[Candidate]) -> NDArray[np.float64]:
    if not _ASKS_FOR_NUMBER.search(question):
        return np.zeros(len(found))
    return np.array([1.0 if _HAS_NUMBER.search(c.text) else 0.0 for c in found])


def _unit(vectors: Vectors) -> NDArray[np.float64]:
    exact = vectors.astype(np.float64)
    lengths: NDArray[np.float64] = np.linalg.norm(exact, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(exact, np.maximum(lengths, 1e-12))
    return unit


def _diverse(scores: NDArray[np.float64], vectors: NDArray[np.float64], most: int) -> list[int]:
    """Maximal marginal relevance: each next one scores well and is unlike those chosen."""
    floor = _KEEP * scores.max()
    chosen = [int(np.argmax(scores))]
    while len(chosen) < most:
        likeness = (vectors @ vectors[chosen].T).max(axis=1)
        value = scores - _DIVERSITY * np.maximum(likeness, 0.0)
        value[(scores < floor) | (likeness > 0.95)] = -np.inf
        value[chosen] = -np.inf
        best = int(np.argmax(value))
        if not np.isfinite(value[best]):
            break
        chosen.append(best)
    return chosen


def _in_reading_order(picks: list[Pick]) -> list[Pick]:
    best: dict[int, float] = {}
    for pick in picks:
        marker = pick.candidate.source.marker
        best[marker] = max(best.get(marker, -math.inf), pick.score)
    return sorted(
        picks,
        key=lambda pick: (
            -best[pick.candidate.source.marker],
            pick.candidate.source.marker,
            pick.candidate.start,
        ),
    )
