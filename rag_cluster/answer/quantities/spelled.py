"""English number words: "twenty-five", "two hundred and four thousand", "three quarters"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from rag_cluster.answer.quantities.numerals import Numeral

_UP_TO_NINETEEN = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_FROM_TWENTY = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: number for number, word in enumerate(_UP_TO_NINETEEN.split())}
_TENS = {word: 10 * number for number, word in enumerate(_FROM_TWENTY.split(), start=2)}
_POWERS = {
    "dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9,
    "trillion": 10**12,
}  # fmt: skip
_PARTS = {
    "half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fifth": 5,
    "fifths": 5, "sixth": 6, "sixths": 6, "eighth": 8, "eighths": 8, "tenth": 10, "tenths": 10,
}  # fmt: skip
_WORD = "|".join([*_SMALL, *_TENS, *_POWERS])
_SPELLED = re.compile(
    rf"(?<![\w-])(?:a\s(?=(?:{'|'.join(_POWERS)})\b))?(?:{_WORD})"
    rf"(?:[\s-]+(?:and\s+)?(?:{_WORD})(?![\w]))*(?!\w)",
    re.IGNORECASE,
)
_FRACTION = re.compile(
    rf"(?<![\w-])(a|one|two|three|four|five|seven|nine)[\s-]({'|'.join(_PARTS)})(?![\w-])"
    r"(?:\s+of\b)?",
    re.IGNORECASE,
)
_POWER_AFTER = re.compile(rf"\s+(?:{'|'.join(list(_POWERS)[1:])})\b", re.IGNORECASE)


def spelled(text: str) -> Iterator[tuple[int, int, Numeral]]:
    """Spans of number words and their values.

    Powers alone in the plural ("thousands of users") are no numbers, and neither are ordinals. A
    fraction of one such as "a third" is read where "of" follows or its count is not "a" or "one".
    """
    parts: list[tuple[int, int]] = []
    for match in _FRACTION.finditer(text):
        count, part = match.group(1).lower(), match.group(2).lower()
        if count in ("a", "one") and not match.group().endswith("of"):
            continue
        value = Fraction(_SMALL.get(count, 1), _PARTS[part])
        parts.append(match.span())
        yield match.start(), match.end(2), Numeral(value, Fraction(0), Fraction(0))
    for match in _SPELLED.finditer(text):
        if any(start < match.end() and match.start() < end for start, end in parts):
            continue
        start, words = match.start(), re.split(r"[\s-]+", match.group().lower())
        if words[0] in _POWERS:  # "million" after digits belongs to these
            continue
        value = Fraction(_value([word for word in words if word not in ("and", "a")]))
        yield start, match.end(), Numeral(value, Fraction(1), Fraction(1))


def _value(words: list[str]) -> int:
    """The value of words in order: below a thousand they add up, larger powers close a group."""
    total, group = 0, 0
    for word in words:
        if word not in _POWERS:
            group += _SMALL.get(word, 0) + _TENS.get(word, 0)
        elif _POWERS[word] < 1000:
            group = max(1, group) * _POWERS[word]
        else:
            total += max(1, group) * _POWERS[word]
            group = 0
    return total + group
