"""A number in a text, and the ways in which it can be understood."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

# Units that are none: nothing said ("costs 12."), and something counted ("12 pumps").
UNSAID = ""
COUNTED = "counted"
# A cell's number as it stands under a caption such as "in millions": all but an amount of money.
NO_MONEY = "no money"

NEAR = 40  # characters before or after a number in which words say something of it

Hedge = Literal["", "about", "over", "under"]


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to understand a number.

    `value` is exact and in the base unit `unit` ("$1.2 billion" is 1200000000 USD, "90 min" 5400
    s). `step` is what one in the last digit shown is worth; 0 where the number is not one that is
    rounded (a bare count). `coarse` is the same, with the zeros at the end of a whole number taken
    as not known, which holds of "about 1,200". `measure` is what one of the unit said is in the
    base unit (60 for "min").
    """

    value: Fraction
    unit: str
    step: Fraction = Fraction(0)
    coarse: Fraction = Fraction(0)
    measure: Fraction = Fraction(1)

    @property
    def bare(self) -> Reading:
        """The number as it was said, without its unit."""
        by = self.measure
        return Reading(self.value / by, UNSAID, self.step / by, self.coarse / by)


@dataclass(frozen=True, slots=True)
class Day:
    """A date as far as it is said: a year, a month of a year, a day with or without its year."""

    year: int | None
    month: int | None = None
    day: int | None = None


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number at `text[start:end]`. `said` is that text.

    Where several readings are possible ("1.234" in German, "3 May" or "5 March" for 3/5) all are
    there. `spelled` tells a number in words, `bracketed` one in an accountant's brackets, which may
    be below zero or paid out, and `rises` one that a word beside it calls a gain.
    """

    start: int
    end: int
    said: str
    readings: tuple[Reading, ...] = ()
    days: tuple[Day, ...] = ()
    hedge: Hedge = ""
    spelled: bool = False
    bracketed: bool = False
    rises: bool = False


def before(text: str, at: int) -> str:
    """The few characters before a place."""
    return text[max(0, at - NEAR) : at]
