"""Numbers in digits or words with what stands beside them; ratios; whole numbers that are years."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from fractions import Fraction

from rag_cluster.answer.quantities.calendar import years
from rag_cluster.answer.quantities.numerals import NUMERAL, Numeral, numerals
from rag_cluster.answer.quantities.quantity import (
    COUNTED,
    UNSAID,
    Quantity,
    Reading,
    before,
)
from rag_cluster.answer.quantities.spelled import spelled
from rag_cluster.answer.quantities.units import PREFIX, RATIO, Beside, beside, currency_of
from rag_cluster.answer.sentences import guess_language

DECIMAL_COMMA = {"de", "fr", "es", "it", "ru"}

# Letters that make a number beside them a part of a name; Chinese characters do not.
_LETTER = r"A-Za-z0-9_\u00c0-\u02af\u0370-\u052f"
_NUMBER = re.compile(
    rf"(?<![{_LETTER}.,])(?P<open>\()?(?P<sign>[-\u2013](?=[\d$\u20ac\u00a3.(])|minus\s)?"
    rf"(?:(?P<money>{PREFIX})\s?)?(?P<inner>\()?(?P<minus>-(?=[\d.]))?(?P<numeral>{NUMERAL})",
    re.IGNORECASE,
)
_RATIO = re.compile(
    rf"(?<![{_LETTER}.,:])(\d+(?:\.\d+)?)(?:(?::|\s:\s)(\d+(?:\.\d+)?)|\sto\s(?:1|one)\b)"
    rf"(?![{_LETTER}:]|[.,]\d)"
)
_FRACTION = re.compile(rf"(?<![{_LETTER}.,/])(\d)/(\d\d?)(?![{_LETTER}/]|\.\d)")
# COVID-19, 10-K, 3rd, 5G, a telephone number: parts of a name, not amounts.
_NAME_BEFORE = re.compile(r"[^\W\d_]-$")
_NAME_AFTER = re.compile(rf"(?:st|nd|rd|th)\b|-[A-Z]|[{_LETTER}@]|[.,:/]\d|-\d+-")
_CLOSING = re.compile(r"\s?\)")
_PRICED = re.compile(rf"{PREFIX}\s?$")
_KILOGRAMS_OF_A_POUND = Fraction("0.45359237")
_LARGEST_PART = 16  # 1/16 is a fraction, 24/7 and 9/11 are names


def amounts(text: str) -> Iterator[Quantity]:
    """Numbers in digits, with sign, currency, scale and unit."""
    comma = guess_language(text) in DECIMAL_COMMA
    for match in _NUMBER.finditer(text):
        meanings = numerals(match["numeral"], decimal_comma=comma)
        money = currency_of(match["money"]) if match["money"] else ""
        after, closed = _after(text, match, money)
        named = not money and _NAME_BEFORE.search(before(text, match.start("numeral")))
        alone = after.end == match.end()
        if not meanings or named or (alone and _NAME_AFTER.match(text, after.end)):
            continue
        readings = [reading for one in meanings for reading in _readings(one, after)]
        name = next(name for name in ("sign", "money", "numeral") if match[name])
        readings = _signed(text, match, readings, closed=closed)
        found = _quantity(text, match.start(name), after.end, readings)
        yield dataclasses.replace(found, bracketed=closed and bool(match["inner"]))


def spelled_amounts(text: str) -> Iterator[Quantity]:
    """Numbers in words, with scale and unit."""
    for start, end, numeral in spelled(text):
        after = beside(text, end)
        found = _quantity(text, start, after.end, list(_readings(numeral, after)))
        yield dataclasses.replace(found, spelled=True)


def ratios(text: str) -> Iterator[Quantity]:
    """3:1 and "3 to 1" as 3 times, and fractions such as 3/4."""
    for match in _RATIO.finditer(text):
        if below := Fraction(match.group(2) or 1):
            reading = Reading(Fraction(match.group(1)) / below, RATIO)
            yield _quantity(text, match.start(), match.end(), [reading])
    for match in _FRACTION.finditer(text):
        above, below = Fraction(match.group(1)), Fraction(match.group(2))
        if 0 < above < below <= _LARGEST_PART:
            after = beside(text, match.end())
            part = Numeral(above / below, Fraction(0), Fraction(0))
            yield _quantity(text, match.start(), after.end, list(_readings(part, after)))


def plain_years(text: str) -> Iterator[Quantity]:
    """Years, but not those of "2000 kg" and "EUR 2000"."""
    for quantity in years(text):
        after = beside(text, quantity.end)
        counted = after.unit in (UNSAID, COUNTED) and not after.scaled
        if not quantity.days or (counted and not _PRICED.search(before(text, quantity.start))):
            yield quantity


def _readings(numeral: Numeral, after: Beside) -> Iterator[Reading]:
    """The number with what stands beside it."""
    scaled = numeral.times(after.factor)
    bare = after.unit in (UNSAID, COUNTED)
    rounded = not bare or after.scaled or 0 < numeral.step < 1
    step = scaled.step if rounded else Fraction(0)
    yield Reading(scaled.value, after.unit, step, scaled.coarse, after.measure)
    if after.unit == "GBP":  # pounds may be a weight
        factor = _KILOGRAMS_OF_A_POUND
        yield Reading(scaled.value * factor, "kg", step * factor, scaled.coarse * factor, factor)


def _after(text: str, match: re.Match[str], money: str) -> tuple[Beside, bool]:
    """What follows a number, be it within its brackets or behind them, and whether it is in any."""
    after = beside(text, match.end(), money)
    closing = _CLOSING.match(text, after.end)
    if not closing or not (match["open"] or match["inner"]):
        return after, False
    behind = beside(text, closing.end(), money)
    said = behind.scaled or behind.unit not in (money, UNSAID, COUNTED)
    return behind if said or match["inner"] else after, True


def _signed(
    text: str, match: re.Match[str], readings: list[Reading], *, closed: bool
) -> list[Reading]:
    """The readings under the number's sign: in brackets it may be negative.

    A hyphen that begins a line may be a minus sign or a bullet.
    """
    sign = match["minus"] or match["sign"]
    if not sign and not closed:
        return readings
    negative = [dataclasses.replace(one, value=-one.value) for one in readings]
    bullet = match["sign"] and text[: match.start("sign")].endswith("\n")
    return negative if sign and not bullet else [*readings, *negative]


def _quantity(text: str, start: int, end: int, readings: list[Reading]) -> Quantity:
    return Quantity(start, end, text[start:end], tuple(readings))
