"""What stands beside a number: scale words, currencies, percent, ratios and units of measure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from rag_cluster.answer.quantities.quantity import COUNTED, UNSAID

PERCENT, POINTS, RATIO = "%", "percentage points", "ratio"


def _table(*rows: tuple[str, str, str | int]) -> dict[str, tuple[str, Fraction]]:
    """Names to base unit and factor; a row is (base, names, factor)."""
    return {
        name: (base, Fraction(factor)) for base, names, factor in rows for name in names.split()
    }


# English, with German, French and Spanish words where these mean nothing else. "Billion" is a
# thousand million, as in English; "Billionen" can only be German.
SCALES: dict[str, Fraction] = {
    name: Fraction(10) ** power
    for power, names in (
        (2, "hundred"),
        (3, "thousand thousands tausend tsd tsd. mil millier milliers"),
        (6, "million millions millionen mio mio. mn mln millón millones"),
        (9, "billion billions bn bln milliarde milliarden mrd mrd. milliard milliards"),
        (12, "trillion trillions tn trn billionen"),
    )
    for name in names.split()
}
_CJK_SCALES = {"\u4e07": 4, "\u842c": 4, "\u4ebf": 8, "\u5104": 8, "\u5343": 3, "\u767e": 2}
# A letter counts as a scale beside a currency; k, M, B also when joined to any number ("5M").
_LETTERS = {"k": 3, "K": 3, "m": 6, "M": 6, "mm": 6, "MM": 6, "b": 9, "B": 9, "T": 12}
_JOINED = ("k", "K", "M", "B")

CURRENCIES: dict[str, tuple[str, Fraction]] = _table(
    ("USD", "$ US$ U.S.$ usd dollar dollars us-dollar", 1),
    ("EUR", "\u20ac eur euro euros", 1),
    ("GBP", "\u00a3 gbp pound pounds", 1),
    ("JPY", "\u00a5 jpy yen \u5186", 1),
    ("CNY", "cny rmb yuan \u5143", 1),
    ("INR", "\u20b9 inr rupee rupees", 1),
    ("CHF", "chf franken", 1),
    ("CAD", "C$ CA$ cad", 1),
    ("AUD", "A$ AU$ aud", 1),
    ("SEK", "sek", 1), ("NOK", "nok", 1), ("DKK", "dkk", 1), ("KRW", "\u20a9 krw", 1),
)  # fmt: skip

_CURRENCY_CODES = {name.lower(): code for name, (code, _) in CURRENCIES.items()}

# Symbols keep their case (mW is not MW); words do not.
_SYMBOLS = _table(
    ("s", "ms", "1/1000"), ("s", "s sec", 1), ("s", "min", 60), ("s", "h hr hrs", 3600),
    ("m", "nm", "1/1000000000"), ("m", "\u00b5m \u03bcm", "1/1000000"), ("m", "mm", "1/1000"),
    ("m", "cm", "1/100"), ("m", "m", 1), ("m", "km", 1000), ("m", "ft", "0.3048"),
    ("kg", "mg", "1/1000000"), ("kg", "g", "1/1000"), ("kg", "kg", 1), ("kg", "t", 1000),
    ("kg", "lb lbs", "0.45359237"), ("kg", "oz", "0.028349523125"),
    ("l", "ml mL", "1/1000"), ("l", "cl", "1/100"), ("l", "l L", 1), ("l", "m\u00b3", 1000),
    ("m\u00b2", "m\u00b2", 1), ("m\u00b2", "ha", 10000), ("m\u00b2", "km\u00b2", 1000000),
    ("W", "mW", "1/1000"), ("W", "W", 1), ("W", "kW", 1000), ("W", "MW", 10**6),
    ("W", "GW", 10**9), ("Wh", "Wh", 1), ("Wh", "kWh", 1000), ("Wh", "MWh", 10**6),
    ("Wh", "GWh", 10**9), ("V", "mV", "1/1000"), ("V", "V", 1), ("V", "kV", 1000),
    ("A", "mA", "1/1000"), ("A", "A", 1), ("Hz", "Hz", 1), ("Hz", "kHz", 1000),
    ("Hz", "MHz", 10**6), ("Hz", "GHz", 10**9), ("Pa", "Pa", 1), ("Pa", "hPa", 100),
    ("Pa", "kPa", 1000), ("Pa", "mbar", 100), ("Pa", "bar", 10**5), ("Pa", "MPa", 10**6),
    ("N", "N", 1), ("N", "kN", 1000), ("Nm", "Nm", 1), ("psi", "psi", 1), ("dB", "dB", 1),
    ("\u00b0C", "\u00b0C \u2103", 1), ("\u00b0F", "\u00b0F", 1), ("K", "K", 1),
    ("rpm", "rpm", 1), ("byte", "kB KB", 1000), ("byte", "MB", 10**6), ("byte", "GB", 10**9),
    ("byte", "TB", 10**12), ("byte", "KiB", 2**10), ("byte", "MiB", 2**20),
    ("byte", "GiB", 2**30), ("m/s", "mph", "0.44704"), ("m/s", "kph", "5/18"),
)  # fmt: skip
_WORDS = _table(
    ("s", "millisecond milliseconds", "1/1000"), ("s", "second seconds secs sekunde sekunden", 1),
    ("s", "minute minutes mins minuten", 60), ("s", "hour hours stunde stunden heure heures", 3600),
    ("s", "day days tage tagen jour jours d\u00eda d\u00edas", 86400),
    ("s", "week weeks woche wochen semaine semaines", 604800),
    ("month", "month months monat monate monaten mois mes meses", 1),
    ("month", "quarter quarters", 3),
    ("month", "year years yr yrs jahr jahre jahren ans ann\u00e9es a\u00f1o a\u00f1os", 12),
    ("month", "decade decades", 120),
    ("m", "millimetre millimetres millimeter millimeters", "1/1000"),
    ("m", "centimetre centimetres centimeter centimeters", "1/100"),
    ("m", "metre metres meter meters", 1),
    ("m", "kilometre kilometres kilometer kilometers kilom\u00e8tres", 1000),
    ("m", "inch inches", "0.0254"), ("m", "foot feet", "0.3048"), ("m", "yard yards", "0.9144"),
    ("m", "mile miles", "1609.344"), ("kg", "gram grams gramme grammes", "1/1000"),
    ("kg", "kilo kilos kilogram kilograms kilogramm", 1), ("kg", "milligrams", "1/1000000"),
    ("kg", "tonne tonnes tonnen", 1000), ("kg", "ounce ounces", "0.028349523125"),
    ("l", "litre litres liter liters", 1), ("l", "millilitres milliliters", "1/1000"),
    ("m\u00b2", "hectare hectares hektar", 10000), ("W", "watt watts", 1),
    ("W", "kilowatt kilowatts", 1000), ("W", "megawatt megawatts", 10**6),
    ("W", "gigawatt gigawatts", 10**9), ("V", "volt volts", 1), ("A", "amp amps ampere", 1),
    ("byte", "byte bytes", 1), ("byte", "megabytes", 10**6), ("byte", "gigabytes", 10**9),
    ("\u00b0C", "celsius", 1), ("\u00b0F", "fahrenheit", 1),
)  # fmt: skip

_PERCENT = r"%|(?:percent|per\s?cent|pct|prozent|pour\s?cent|por\s?ciento|per\s?cento)\b"
_POINTS = (
    r"(?:percent(?:age)?[\s-]points?|%[\s-]points?|ppts?|pp|prozentpunkten?|"
    r"points?\sde\spourcentage|puntos\sporcentuales)\b"
)
_BASIS = r"(?:basis[\s-]points?|bps|bp)\b"
_TIMES = r"(?:[x\u00d7](?!\w|\s?\d)|times\b|-?fold\b)"


def _any(names: Iterable[str]) -> str:
    """The names as alternatives, longest first; a name that ends in a letter ends a word."""
    ordered = sorted(names, key=len, reverse=True)
    return "|".join(re.escape(name) + (r"(?!\w)" if name[-1].isalpha() else "") for name in ordered)


PREFIX = (
    r"(?:U\.S\.\s?\$|(?:US|CA|AU|C|A)?\$|[\u20ac\u00a3\u00a5\u20b9\u20a9]"
    r"|\b(?:USD|EUR|GBP|JPY|CNY|RMB|INR|CHF|CAD|AUD|SEK|NOK|DKK|KRW)(?=[\s\d(-]))"
)
_SCALE = re.compile(rf"[\s-]?({_any(SCALES)})", re.IGNORECASE)
_CJK_SCALE = re.compile(f"[{''.join(_CJK_SCALES)}]")
_LETTER = re.compile(r"(\s?)(mm|MM|[kKmMbBT])(?![\w/\u00b2\u00b3])")
_CURRENCY = re.compile(
    rf"[\s-]?((?:US[\s-]|U\.S\.\s)?(?:{_any(CURRENCIES)}))(?!\s?\d)", re.IGNORECASE
)
_KIND = re.compile(
    rf"[\s-]?(?:(?P<points>{_POINTS})|(?P<basis>{_BASIS})|(?P<percent>{_PERCENT})"
    rf"|(?P<times>{_TIMES}))",
    re.IGNORECASE,
)
_SYMBOL = re.compile(rf"\s?({_any(_SYMBOLS)})")
_WORD = re.compile(rf"[\s-]?({_any(_WORDS)})", re.IGNORECASE)
_PER = re.compile(r"(?:\s?/\s?|\s(?:per|an?)\s(?=\w))")
_SKIPPED = re.compile(r"[\s-]([a-z]{2,})(?=[\s-])")
_MOST_SKIPPED = 2  # "14 full days": words between a number and its unit
_NEXT_WORD = re.compile(r"[ -]([a-z\u00df-\u00ff]{2,})")
_NO_NOUNS_TEXT = """
a an and are as at but by for from had has have if in is it its of on or over per than that the then
there they this to under until up was were when where which while who with
und oder bis et ou y o
"""
_NO_NOUNS = frozenset(_NO_NOUNS_TEXT.split())


@dataclass(frozen=True, slots=True)
class Beside:
    """What follows a number, up to `end`: `factor` makes its value one of the base `unit`.

    `scaled` tells that a scale word was said; `measure` is the part of the factor that is the
    unit's (60 for "min").
    """

    unit: str
    factor: Fraction
    end: int
    scaled: bool = False
    measure: Fraction = Fraction(1)


def beside(text: str, at: int, currency: str = "") -> Beside:
    """What follows the number that ends at `at`; `currency` is the base unit said before it."""
    factor, end = _scale(text, at, currency)
    scaled = end > at
    if currency:
        said = _CURRENCY.match(text, end)  # "$5 US dollars", "$5 dollars"
        return Beside(currency, factor, said.end() if said else end, scaled)
    kind = _KIND.match(text, end)
    if kind:
        unit, times = {
            "points": (POINTS, Fraction(1)), "basis": (POINTS, Fraction(1, 100)),
            "percent": (PERCENT, Fraction(1)), "times": (RATIO, Fraction(1)),
        }[kind.lastgroup or ""]  # fmt: skip
        return Beside(unit, factor * times, kind.end(), scaled, times)
    money = _CURRENCY.match(text, end)
    if money:
        return Beside(currency_of(money.group(1)), factor, money.end(), scaled)
    measured = _measure(text, end)
    if measured:
        unit, times, stop = measured
        return Beside(unit, factor * times, stop, scaled, times)
    return Beside(_counted(text, end), factor, end, scaled)


def currency_of(said: str) -> str:
    """The code of a currency as it is said: "$", "US dollars", "EUR"."""
    name = re.sub(r"^(?:US|U\.S\.)[\s-]|\s", "", said.strip(), flags=re.IGNORECASE)
    return _CURRENCY_CODES[name.lower()]


def unit_in(label: str) -> tuple[str, Fraction] | None:
    """The unit that a label such as "kg", "%", "hours" or "$" is, with its factor; else None."""
    label = label.strip()
    if re.fullmatch(_PERCENT, label, re.IGNORECASE):
        return PERCENT, Fraction(1)
    if re.fullmatch(PREFIX, label) or label.lower() in CURRENCIES:
        return currency_of(label), Fraction(1)
    found = _measure(f" {label}", 0)
    return found[:2] if found and found[2] == len(label) + 1 else None


def _scale(text: str, at: int, currency: str) -> tuple[Fraction, int]:
    factor, end = Fraction(1), at
    while match := _SCALE.match(text, end):  # "5 hundred million", "mil millones"
        factor *= SCALES[match.group(1).lower()]
        end = match.end()
    while match := _CJK_SCALE.match(text, end):
        factor *= 10 ** _CJK_SCALES[match.group()]
        end = match.end()
    letter = _LETTER.match(text, end) if end == at else None
    if letter and (currency or (not letter.group(1) and letter.group(2) in _JOINED)):
        return Fraction(10) ** _LETTERS[letter.group(2)], letter.end()
    return factor, end


def _measure(text: str, at: int) -> tuple[str, Fraction, int] | None:
    """A unit of measure, perhaps per another one; also a word or two later if it is a word."""
    match = _SYMBOL.match(text, at) or _WORD.match(text, at)
    if not match:
        return _measure_later(text, at)
    unit, factor = _base(match.group(1))
    per = _PER.match(text, match.end())
    below = per and (_SYMBOL.match(text, per.end()) or _WORD.match(text, per.end()))
    if not below:
        return unit, factor, match.end()
    under, divisor = _base(below.group(1))
    return f"{unit}/{under}", factor / divisor, below.end()


def _measure_later(text: str, at: int) -> tuple[str, Fraction, int] | None:
    for _ in range(_MOST_SKIPPED):
        skipped = _SKIPPED.match(text, at)
        if not skipped or skipped.group(1) in _NO_NOUNS:
            return None
        at = skipped.end()
        if match := _WORD.match(text, at):
            return (*_base(match.group(1)), match.end())
    return None


def _base(name: str) -> tuple[str, Fraction]:
    return _SYMBOLS[name] if name in _SYMBOLS else _WORDS[name.lower()]


def _counted(text: str, at: int) -> str:
    noun = _NEXT_WORD.match(text, at)
    return COUNTED if noun and noun.group(1) not in _NO_NOUNS else UNSAID
