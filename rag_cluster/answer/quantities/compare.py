"""When a number in an answer is one that a passage says."""

from __future__ import annotations

from fractions import Fraction

from rag_cluster.answer.quantities.quantity import (
    COUNTED,
    NO_MONEY,
    UNSAID,
    Day,
    Hedge,
    Quantity,
    Reading,
)
from rag_cluster.answer.quantities.units import CURRENCIES, PERCENT

# Rounding that nobody announced may move a value by so much of it; "about" by so much.
ROUNDING, ABOUT = Fraction(5, 100), Fraction(10, 100)

BARE = (UNSAID, COUNTED, NO_MONEY)
MONEY = {code for code, _ in CURRENCIES.values()}


def says(passage: Quantity, answer: Quantity) -> bool:
    """Whether the passage's quantity is, or rounds to, the answer's, in some reading of both.

    An answer may say less than its passage, never more: "$1.2 billion" of 1,234 million and "2021"
    of 12 March 2021 are said, "$1.234 billion" of 1.2 billion and "12 March" of March are not. A
    gain is not said by a number in an accountant's brackets.
    """
    if any(_same_day(known, asked) for known in passage.days for asked in answer.days):
        return True
    return any(
        _same(known, asked, answer.hedge) or _same_share(known, asked, answer.hedge)
        for known in passage.readings
        if not (passage.bracketed and answer.rises and known.value > 0)
        for asked in answer.readings
    )


def _same_day(known: Day, asked: Day) -> bool:
    pairs = ((known.year, asked.year), (known.month, asked.month), (known.day, asked.day))
    return all(said is None or said == there for there, said in pairs)


def _same(known: Reading, asked: Reading, hedge: Hedge) -> bool:
    """Whether the values are equal, in the same unit, or as said where one is said without."""
    if known.unit == asked.unit:
        return _equals(known.value, asked, hedge)
    units = {known.unit, asked.unit}
    if UNSAID in units or (NO_MONEY in units and not units & MONEY):
        return _equals(known.bare.value, asked.bare, hedge)
    return False


def _same_share(known: Reading, asked: Reading, hedge: Hedge) -> bool:
    """Whether one is a share such as .125 and the other the same in percent."""
    if asked.unit == PERCENT and known.unit in BARE and 0 < known.value < 1:
        return _equals(100 * known.value, asked, hedge)
    if known.unit == PERCENT and asked.unit in BARE and 0 < asked.value < 1:
        return _equals(known.value / 100, asked, hedge)
    return False


def _equals(known: Fraction, asked: Reading, hedge: Hedge) -> bool:
    if known == asked.value:
        return True
    if known * asked.value < 0:
        return False
    off, size = abs(known) - abs(asked.value), abs(asked.value)
    match hedge:
        case "about":
            return abs(off) <= min(asked.coarse / 2, ABOUT * size)
        case "over":
            return 0 <= off < asked.coarse
        case "under":
            return 0 <= -off < asked.coarse
        case _:
            return abs(off) <= min(asked.step / 2, ROUNDING * size)
