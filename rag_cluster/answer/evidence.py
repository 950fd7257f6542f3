"""Whether a source supports what an answer says: its words, its numbers, its names, its "not"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import lru_cache

import Stemmer

from rag_cluster.answer.quantities import Quantity, Reading, read, says, without_numbers
from rag_cluster.answer.quantities.quantity import COUNTED, UNSAID, before
from rag_cluster.answer.sentences import split_units
from rag_cluster.answer.sources import Source
from rag_cluster.answer.tables import read_row
from rag_cluster.answer.words import content_words
from rag_cluster.names import name_in_words

# Share of a sentence's content words that a passage must hold to support it.
MIN_SUPPORT = 0.6
# From this likeness on, a sentence and a unit of the passage say the same, or its opposite.
_SAME = 0.75

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_PLAIN_CODE = re.compile(r"`[^`\w]*\d[\d.,]*\s?\S{0,4}`")  # `400`, `30 s`: a number, not code
_ANAPHORA = re.compile(
    r"\b(?:the|these|those|all|other|both|its|their)\s(?:other\s)?$", re.IGNORECASE
)
_SMALL = 10
_NAME = re.compile(r"(?=[\w-]*[^\W\d_])(?=[\w-]*\d)\w[\w-]*\w")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nothing|neither|nor|without|cannot|\w+n['\u2019]t|"
    r"nicht|kein\w*|nie|ohne|pas|jamais|sans|nunca|sin)\b",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"(?<=[\[,; \u2013-])\d{1,4}(?=[\d\s,;\u2013-]*\])")
_STEM = Stemmer.Stemmer("english")


def whole(source: Source) -> str:
    """All that a source says of itself: the file's name, title, section, header and text."""
    return "\n".join([_caption(source), source.header, source.text])


@lru_cache(maxsize=256)
def said(source: Source) -> tuple[Quantity, ...]:
    """The numbers in a source: its name, its title and section, its text.

    Its own references "[12]" are shown to the generator as "(12)", which an answer may repeat.
    """
    above = _caption(source)
    numbers = read(source.text, source.header, above)
    references = [_plain_number(match) for match in _REFERENCE.finditer(source.text)]
    return (*read(above), *read(source.header), *numbers, *references)


def claimed(text: str, question: str = "") -> list[Quantity]:
    """The numbers that an answer claims, by place; the question may set a scale ("in millions").

    Numbers in code are none, nor is "one" without a unit (mostly a pronoun), nor a small number
    after "the" or "these", which counts what was named before.
    """
    numbers = read(_without_code(text), caption=question)
    return [quantity for quantity in numbers if not _is_idle(text, quantity)]


def unsaid(quantities: Iterable[Quantity], sources: Sequence[Source]) -> list[Quantity]:
    """Those of the answer's numbers that none of the sources says."""
    known = [there for source in sources for there in said(source)]
    return [asked for asked in quantities if not any(says(there, asked) for there in known)]


def support(source: Source, sentence: str, question: str = "") -> float:
    """The share of what the sentence says that the source has, in [0, 1].

    What it says are its content words, by their stems, and its numbers, each with its unit one.
    """
    words, numbers = stems(without_numbers(sentence)), claimed(sentence, question)
    held = len(words & _stems(whole(source))) + len(numbers) - len(unsaid(numbers, [source]))
    return held / (len(words) + len(numbers)) if words or numbers else 0.0


def supports(source: Source, sentence: str, question: str = "") -> bool:
    """Whether the source holds 60 % of the sentence's content words and all its numbers and names.

    A name here is a word with digits in it ("K-95"). A source whose nearest sentence says the same
    words with a "not" more or less says the opposite.
    """
    return (
        support(source, sentence, question) >= MIN_SUPPORT
        and not unsaid(claimed(sentence, question), [source])
        and _has_names(source, sentence)
        and not _denies(source, sentence)
    )


def best_quote(source: Source, sentence: str) -> tuple[int, int]:
    """The span of the source's sentence or row that is most like the answer's sentence.

    Likeness is 2 |shared content words| / (|one| + |other|) (Dice, 1945); the first of equals. A
    row counts with its header cells; a header row is no quote.
    """
    return _nearest(source, sentence)[1]


def stems(text: str) -> frozenset[str]:
    """The stems of the content words. The stemmer is English, and leaves other scripts alone."""
    return frozenset(_STEM.stemWords(list(content_words(text))))


@lru_cache(maxsize=1024)
def _stems(text: str) -> frozenset[str]:
    return stems(text)


def _plain_number(match: re.Match[str]) -> Quantity:
    value = Reading(Fraction(int(match.group())), COUNTED)
    return Quantity(match.start(), match.end(), match.group(), (value,))


def _caption(source: Source) -> str:
    return f"{name_in_words(source.uri)}\n{source.title}\n{source.section}"


def _without_code(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        kept = _PLAIN_CODE.fullmatch(match.group())
        return match.group() if kept else re.sub(r"[^\n]", " ", match.group())

    return _CODE.sub(blank, text)


def _is_idle(text: str, quantity: Quantity) -> bool:
    values = {abs(reading.value) for reading in quantity.readings}
    bare = {reading.unit for reading in quantity.readings} <= {UNSAID, COUNTED}
    if not bare or quantity.days:
        return False
    if quantity.spelled and values == {1}:
        return True
    small = all(value.denominator == 1 and 0 < value <= _SMALL for value in values)
    return small and _ANAPHORA.search(before(text, quantity.start)) is not None


def _has_names(source: Source, sentence: str) -> bool:
    covered = [(quantity.start, quantity.end) for quantity in read(sentence)]
    names = [
        match.group()
        for match in _NAME.finditer(sentence)
        if not any(start < match.end() and match.start() < end for start, end in covered)
    ]
    if not names:
        return True
    held = _joined(whole(source))
    return all(_joined(name) in held for name in names)


def _joined(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def _denies(source: Source, sentence: str) -> bool:
    likeness, (start, end) = _nearest(source, sentence)
    if likeness < _SAME:
        return False
    return _negations(source.text[start:end]) % 2 != _negations(sentence) % 2


def _negations(text: str) -> int:
    return len(_NEGATION.findall(text))


@lru_cache(maxsize=1024)
def _nearest(source: Source, sentence: str) -> tuple[float, tuple[int, int]]:
    asked = stems(sentence)
    best, best_span = -1.0, (0, len(source.text))
    units = split_units(source.text)
    for number, unit in enumerate(units):
        line = source.text[unit.start : unit.end]
        if unit.kind == "row":
            line = read_row(source.text, units, number, source.header)
        if unit.kind == "rule" or not line:
            continue
        held = _stems(line)
        likeness = 2 * len(asked & held) / ((len(asked) + len(held)) or 1)
        if likeness > best:
            best, best_span = likeness, (unit.start, unit.end)
    return best, best_span
