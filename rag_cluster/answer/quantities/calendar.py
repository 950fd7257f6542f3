"""Dates, years and times of day, in the forms that English and its neighbours write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from rag_cluster.answer.quantities.quantity import UNSAID, Day, Quantity, Reading, before

_CENTURY_TURNS = 70  # FY69 is 2069, FY70 is 1970

TIME = "time of day"
DECADE = "decade of the calendar"

_NAMES = (
    "january januar janvier enero", "february februar f\u00e9vrier febrero",
    "march m\u00e4rz mars marzo", "april avril abril", "may mai mayo", "june juni juin junio",
    "july juli juillet julio", "august ao\u00fbt agosto", "september septembre septiembre",
    "october oktober octobre octubre", "november novembre noviembre",
    "december dezember d\u00e9cembre diciembre",
)  # fmt: skip
_MONTHS = {name: number for number, names in enumerate(_NAMES, 1) for name in names.split()}
_SHORT = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS |= {name: number for number, name in enumerate(_SHORT, 1)}
_MONTHS |= {"sept": 9, "dez": 12, "okt": 10}

_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})(?!\w)\.?"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th|\.)?"
_YEAR = r"(?P<year>(?:1[5-9]|20|21)\d\d)"
_START, _END = r"(?<![\w.,/-])", r"(?![\w/]|[.,-]\d)"
_CALENDAR = (
    rf"{_START}{_YEAR}-(?P<month>[01]?\d)-(?P<day>[0-3]?\d)(?=\D|$)",
    rf"{_START}{_YEAR}\u5e74(?:(?P<month>1?\d)\u6708)?(?:(?P<day>[1-3]?\d)\u65e5)?",
    rf"(?<!\w)(?:fy|fiscal(?:\s+year)?)[\s']*(?:{_YEAR}|(?P<short>\d\d)){_END}",
    rf"{_START}{_DAY}\s?(?:of\s|de\s)?{_MONTH}(?:,?\s(?:of\s|de\s)?{_YEAR}{_END})?",
    rf"(?<!\w){_MONTH}\s{_DAY}(?!\d)(?:,?\s{_YEAR}{_END})",
    rf"(?<!\w){_MONTH},?\s(?:of\s|de\s)?{_YEAR}{_END}",
    rf"(?<!\w){_MONTH}\s{_DAY}(?![\w%])(?!\.\d)",
    rf"{_START}(?P<a>[0-3]?\d)(?P<mark>[./])(?P<b>[0-3]?\d)(?P=mark)(?:{_YEAR}|(?P<short>\d\d))(?!\d)",
)
_DATES = tuple(re.compile(pattern, re.IGNORECASE) for pattern in _CALENDAR)
_PLAIN_YEAR = re.compile(
    rf"(?<![\w.,$\u20ac\u00a3]){_YEAR}(?P<decade>s)?"
    r"(?:(?P<dash>[-\u2013/])(?P<until>\d\d))?(?![\w/%]|[.,]\d)"
)
_CLOCK = re.compile(
    r"(?<![\w:.])(?P<hour>[01]?\d|2[0-4])(?::(?P<minute>[0-5]\d)(?::[0-5]\d)?)?"
    r"(?:\s?(?P<half>[ap])(?:\.m\.|m\b)|(?P<uhr>\s?Uhr\b))?(?![\w:])",
    re.IGNORECASE,
)
_RATIO_BEFORE = re.compile(
    r"(?:ratio|odds|proportion|mix\w*|dilut\w*)\b[^.;]{0,25}$", re.IGNORECASE
)


def dates(text: str) -> Iterator[Quantity]:
    """Dates with a day or a month, and fiscal years ("FY23" is 2023); overlaps are possible."""
    for pattern in _DATES:
        for match in pattern.finditer(text):
            days = _days(match.groupdict())
            if days:
                year = days[0].year
                bare = year is not None and days[0].month is None
                yield _quantity(match, text, _as_number(year) if bare else (), days)


def years(text: str) -> Iterator[Quantity]:
    """Whole numbers of four digits that read as years, spans such as "2019-21", decades."""
    for match in _PLAIN_YEAR.finditer(text):
        year = int(match["year"])
        if match["decade"]:
            yield _quantity(match, text, (Reading(Fraction(year), DECADE),), ())
            continue
        days = [Day(year)]
        end = match.start("dash") if match["dash"] else match.end()
        if match["dash"]:
            until = year - year % 100 + int(match["until"])
            if year < until <= year + 30:
                days, end = [Day(year), Day(until)], match.end()
        yield Quantity(match.start("year"), end, text[match.start("year") : end],
                       _as_number(year) if len(days) == 1 else (), tuple(days))  # fmt: skip


def clocks(text: str) -> Iterator[Quantity]:
    """Times of day, "14:30" and "2:30 pm" alike; not a ratio such as 10:30 after that word."""
    for match in _CLOCK.finditer(text):
        hour, minute, half = int(match["hour"]), match["minute"], match["half"]
        if not (minute or half or match["uhr"]) or _RATIO_BEFORE.search(
            before(text, match.start())
        ):
            continue
        if half:
            hour = hour % 12 + (12 if half.lower() == "p" else 0)
        value = Fraction(60 * hour + int(minute or 0))
        yield _quantity(match, text, (Reading(value, TIME),), ())


def _days(found: dict[str, str | None]) -> tuple[Day, ...]:
    numbers = {name: int(value) for name, value in found.items() if value and value.isdecimal()}
    year = numbers.get("year")
    if (short := numbers.get("short")) is not None:
        year = short + (2000 if short < _CENTURY_TURNS else 1900)
    if "a" in numbers:  # 3/5/2021 is a day in May or one in March; with points the day comes first
        a, b = numbers["a"], numbers["b"]
        orders = [(b, a)] if found["mark"] == "." else [(b, a), (a, b)]
        return tuple(Day(year, month, day) for month, day in orders if _exists(month, day))
    month, day = found.get("month"), numbers.get("day")
    number = _MONTHS.get(month.lower(), numbers.get("month")) if month else None
    return (Day(year, number, day),) if _exists(number or 1, day or 1) else ()


def _exists(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= 31


def _as_number(year: int | None) -> tuple[Reading, ...]:
    """A year may be a count after all ("in 2020 cases"), and a count a year."""
    return () if year is None else (Reading(Fraction(year), UNSAID),)


def _quantity(
    match: re.Match[str], text: str, readings: tuple[Reading, ...], days: tuple[Day, ...]
) -> Quantity:
    start, end = match.span()
    end = start + len(text[start:end].rstrip(" ,."))
    return Quantity(start, end, text[start:end], readings, days)
