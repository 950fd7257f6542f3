"""Confidence: whether the search found what was asked for, by its scores; a label and why.

Scores of fusion cannot tell it: reciprocal ranks are the same whatever was found, and convex
fusion gives its best hit nearly 1. Two things can, and are the same for every fusion, reranker and
encoder: how far the best hit stands out in each channel's own scores (`retrieve.standing`), and how
many of the question's words one of the first hits has. A logistic function of both was fitted on
three collections, half of the questions with their answer taken out, and its weights rounded
(docs/guardrails.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from rag_cluster.answer.guardrails.verdict import Verdict, flagged, passed
from rag_cluster.index.analyzer import load_analyzer
from rag_cluster.schema import Passage

Label = Literal["high", "medium", "low"]

HIGH, LOW = 0.65, 0.35
_WORDS, _STANDING, _OFFSET = 5.5, 4.5, -6.5
_FIRST = 3  # hits of which one should have the question's words
_HALF = 4.0  # standard deviations that count as half of the most that standing out can give
_UNKNOWN = 0.4  # where there are too few candidates to stand out of: as usual


def check_confidence(
    question: str, hits: Sequence[Passage], standing: Mapping[str, float], language: str
) -> Verdict:
    """Flagged where confidence is low; the value is the label.

    `standing` is, for each channel, the best hit's distance to the other candidates in standard
    deviations; `language` is that of the analyzer that stems the words.
    """
    if not hits:
        return flagged("confidence", "low", "confidence is low: the search found nothing")
    shared, asked = shared_words(question, hits[:_FIRST], language)
    value = confidence(shared / asked if asked else 0.0, standing)
    label = label_of(value)
    far = " and ".join(f"{deviations:.1f} ({name})" for name, deviations in standing.items())
    stands = f"stands {far} standard deviations above the other candidates"
    reason = (
        f"confidence is {label} ({value:.2f}): one of the first {_FIRST} hits has {shared} of the "
        f"question's {asked} words, and the best one "
        f"{stands if far else 'has too few others to be compared with'}"
    )
    measured = {"confidence": round(value, 4), "words": round(shared / asked, 4) if asked else 0.0}
    measured |= {name: round(deviations, 4) for name, deviations in standing.items()}
    verdict = flagged if label == "low" else passed
    return verdict("confidence", label, reason, measured=measured)


def confidence(words: float, standing: Mapping[str, float]) -> float:
    """1 / (1 + exp(6.5 - 5.5 words - 4.5 s)), in (0, 1).

    `words` is the share of the question's words that one of the hits has, s the mean over the
    channels of z / (z + 4) for the best hit's standing z; .4 without channels.
    """
    parts = [1 - _HALF / (deviations + _HALF) for deviations in standing.values()]
    stands = sum(parts) / len(parts) if parts else _UNKNOWN
    return 1 / (1 + math.exp(-(_WORDS * words + _STANDING * stands + _OFFSET)))


def label_of(value: float) -> Label:
    """High from .65, low under .35, else medium."""
    return "high" if value >= HIGH else "low" if value < LOW else "medium"


def shared_words(question: str, hits: Sequence[Passage], language: str) -> tuple[int, int]:
    """How many of the question's words one of the hits has at most, and how many there are.

    Words are stemmed, and stop words are none.
    """
    analyzer = load_analyzer(language)
    asked = set(analyzer.tokens(question))
    texts = [f"{hit.title}\n{hit.section}\n{hit.header}\n{hit.text}" for hit in hits]
    return max(len(asked.intersection(analyzer.tokens(text))) for text in texts), len(asked)
