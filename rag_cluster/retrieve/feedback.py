"""Pseudo-relevance feedback: words of the first results, weighted and added to the query.

Pure functions. How a text is cut into terms is a function that is given.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

Terms = Callable[[str], list[str]]

_WORD = re.compile(r"\w+")


def relevance_model(
    documents: Sequence[Sequence[str]], scores: Sequence[float]
) -> dict[str, float]:
    """The probability of each term under the relevance model RM1 of some documents' terms.

    P(t|R) is the sum over the documents of P(d) * tf(t, d) / |d|, where P(d) is the document's
    share of all scores; where no score is above 0 every document counts alike. A negative score
    counts as 0. Most probable first, ties by the term.

    Source: Lavrenko, Croft: Relevance-Based Language Models (SIGIR 2001), with retrieval scores in
    place of query likelihoods, as Anserini has it.
    """
    weights = [max(0.0, score) for score in scores]
    if not sum(weights):
        weights = [1.0] * len(documents)
    total = sum(weight for weight, terms in zip(weights, documents, strict=True) if terms)
    model: dict[str, float] = defaultdict(float)
    for weight, terms in zip(weights, documents, strict=True):
        for term, count in Counter(terms).items():
            model[term] += weight / total * count / len(terms)
    return dict(sorted(model.items(), key=lambda item: (-item[1], item[0])))


def expansion(
    texts: Sequence[str], scores: Sequence[float], most: int, terms_of: Terms
) -> dict[str, float]:
    """The `most` most probable terms of the texts' relevance model, as words, adding up to 1.

    A term is told by the word of the texts that most often gives it alone, so that a reader, or an
    engine with an analyzer of its own, gets "heating" and not "heat". Left out are terms that no
    word gives alone (parts of an identifier), and single letters and digits: numbers of sections
    and lists are in every document, and say nothing of any.
    """
    model = relevance_model([terms_of(text) for text in texts], scores)
    words = _words_of_terms(texts, terms_of)
    kept: dict[str, float] = {}
    for term, probability in model.items():
        if not probability or (len(term) == 1 and term.isascii()):
            continue
        if term in words or terms_of(term) == [term]:
            kept[words.get(term, term)] = probability
        if len(kept) == most:
            break
    total = sum(kept.values())
    return {word: probability / total for word, probability in kept.items()}


def interpolated(
    query: str, added: Mapping[str, float], original: float, terms_of: Terms
) -> dict[str, float]:
    """Texts and the weight of each term in them: the query's, and the words that are added to it.

    P'(t) = original * tf(t, q) / |q| + (1 - original) * P(t|R), which is RM3; the query stands as
    it is, with the weight original / |q|. Without words to add the query has all the weight.

    Source: Abdul-Jaleel et al.: UMass at TREC 2004: Novelty and HARD.
    """
    share = original if added else 1.0
    weights = {query: share / max(1, len(terms_of(query)))}
    for word, probability in added.items():
        weight = (1.0 - share) * probability
        if weight > 0:
            weights[word] = weights.get(word, 0.0) + weight
    return weights


def _words_of_terms(texts: Iterable[str], terms_of: Terms) -> dict[str, str]:
    """For each term the word that most often gives it alone, ties by the word."""
    counts = Counter(word.lower() for text in texts for word in _WORD.findall(text))
    best: dict[str, str] = {}
    for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        terms = terms_of(word)
        if len(terms) == 1:
            best.setdefault(terms[0], word)
    return best
