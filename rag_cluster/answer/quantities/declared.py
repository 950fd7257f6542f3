"""What a table says of its numbers elsewhere: "(in millions)", a header "Share (%)", "Weight (kg)".

A number in a cell has then two readings: as it stands, and with the scale and the unit that its
header, its row's name or the caption declares.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from rag_cluster.answer.quantities.quantity import COUNTED, NO_MONEY, UNSAID, Quantity, Reading
from rag_cluster.answer.quantities.units import CURRENCIES, PREFIX, SCALES, currency_of, unit_in
from rag_cluster.answer.sentences import Unit, split_units
from rag_cluster.answer.tables import cells, header_cells

_SCALE = "|".join(
    sorted((re.escape(s) for s in SCALES if s not in ("hundred", "mil")), key=len)[::-1]
)
_MONEY = "|".join(sorted((re.escape(c) for c in CURRENCIES if c.isalpha()), key=len)[::-1])
_CURRENCY = rf"(?:{PREFIX}|(?:U\.?S\.?\s)?(?:{_MONEY})(?!\w))"
_IN_SCALE = re.compile(
    rf"(?:(?P<before>{_CURRENCY})\s)?\bin\s(?:(?P<within>{_CURRENCY})\s)?(?P<scale>{_SCALE})(?!\w)"
    rf"(?:\s(?:of\s)?(?P<after>{_CURRENCY}))?",
    re.IGNORECASE,
)
_BRACKETED_SCALE = re.compile(
    rf"[(\[]\s*(?P<before>{_CURRENCY})?\s*(?P<scale>{_SCALE}|000s?|[mkb]n?)(?!\w)"
    rf"\s*(?:of\s)?(?P<after>{_CURRENCY})?\s*[)\]]",
    re.IGNORECASE,
)
_CELLS = re.compile(r"\||\t|\S {3,}|:\s?\S?\d")
_FIGURE = re.compile(r"(?<!\d)(?!(?:19|20)\d\d(?!\d))\d")  # a digit that is not one of a year
_EXCEPT = re.compile(r"\b(?:except|unless|other\sthan)\b", re.IGNORECASE)
_LETTERS = {"m": 6, "mn": 6, "k": 3, "b": 9, "bn": 9, "000": 3, "000s": 3}
_IN_LABEL = re.compile(
    r"[(\[]([^()\[\]]{1,24})[)\]]|,\s([^,:;]{1,12})$|\bin\s(\w+)$"
    # A header that is nothing but a unit; "Min", "Year" and "A" are names of something else.
    r"|^(%|[$\u20ac\u00a3]|kg|km|cm|mm|kWh|MWh|kW|MW|bar|ms|MB|GB|\u00b0[CF]|\w{3,7}s)$"
)
_LABEL_SCALE = re.compile(
    rf"(?P<money>{_CURRENCY})?\s?(?P<scale>{_SCALE}|000s?|[mkb]n?)(?!\w)\s?(?P<after>{_CURRENCY})?",
    re.IGNORECASE,
)
_BRACKETED = re.compile(rf"{PREFIX}?\s?\(\s?{PREFIX}?\s?[\d.,\s]+%?\s?\)\s?%?")
_LONGEST_EXCEPTION = 40  # characters within which "except per share data" begins
_LONGEST_GAP = 6  # characters between a label's colon and its number


@dataclass(frozen=True, slots=True)
class Declared:
    """A unit (UNSAID for none) and the factor that makes a cell's number one of it.

    `everywhere` is false where exceptions are named ("except per share data"); `measure` is the
    part of the factor that is the unit's, and `measured` tells that there is a unit, not a scale.
    """

    unit: str
    factor: Fraction
    everywhere: bool = True
    measure: Fraction = Fraction(1)
    measured: bool = False


def declared_above(text: str) -> Declared | None:
    """The scale that a caption or heading declares for the numbers below it, if there is one.

    "in millions" may stand anywhere, "($ millions)" in a line that is no row of figures.
    """
    match = _IN_SCALE.search(text) or _BRACKETED_SCALE.search(_captions(text))
    if not match:
        return None
    found = match.groupdict()
    money = found["before"] or found.get("within") or found["after"]
    factor = _factor(found["scale"], money)
    if factor is None:
        return None
    excepted = _EXCEPT.search(match.string[match.end() : match.end() + _LONGEST_EXCEPTION])
    return Declared(currency_of(money) if money else UNSAID, factor, excepted is None)


def _captions(text: str) -> str:
    """The lines without those of tables that have figures."""
    lines = text.splitlines()
    return "\n".join(line for line in lines if not (_CELLS.search(line) and _FIGURE.search(line)))


def declared_in(label: str) -> Declared | None:
    """What a header cell or a row's name declares: "Weight (kg)", "Revenue, $m", "Share in %"."""
    for match in _IN_LABEL.finditer(label.strip(" :*_")):
        inner = next(group for group in match.groups() if group).strip()
        scaled = _LABEL_SCALE.fullmatch(inner.removeprefix("in "))
        if scaled:
            money = scaled["money"] or scaled["after"]
            if factor := _factor(scaled["scale"], money):
                return Declared(currency_of(money) if money else UNSAID, factor)
        if unit := unit_in(inner.removeprefix("in ")):
            return Declared(*unit, measure=unit[1], measured=True)
    return None


def under_their_labels(
    text: str, found: Sequence[Quantity], header: str, caption: str
) -> list[Quantity]:
    """The quantities of a text, those in table cells and after labels with what these declare."""
    above = declared_above(f"{caption}\n{header}\n{text}")
    units = split_units(text) if found else []
    rows = {number: unit for number, unit in enumerate(units) if unit.kind == "row"}
    read: list[Quantity] = []
    for quantity in found:
        row = next((n for n, u in rows.items() if u.start <= quantity.start < u.end), None)
        if row is None:
            labels, cell = _labels_before(text, quantity.start), ""
        else:
            labels, cell = _cell(text, units, row, quantity.start, header)
        own = next(filter(None, (declared_in(label) for label in labels)), None)
        signed = _in_brackets(quantity) if _BRACKETED.fullmatch(cell) else quantity
        read.append(_under(signed, _both(own, above)))
    return read


def _cell(
    text: str, units: Sequence[Unit], row: int, at: int, header: str
) -> tuple[list[str], str]:
    """The labels (header cell, row's name) of the cell that holds `at`, and its text."""
    unit = units[row]
    parts = cells(text[unit.start : unit.end])
    place = min(len(cells(text[unit.start : at + 1])), len(parts)) - 1
    names = header_cells(text, units, row, header)
    labels = [names[place]] if names else []
    return [*labels, *parts[:1]] if place else labels, parts[place]


def _labels_before(text: str, at: int) -> list[str]:
    """The labels of a number in a line such as "Weight (kg): 12; Height (cm): 40"."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    pairs = line.split(";")
    label, colon, between = pairs[-1].rpartition(":")
    if not colon or len(between) > _LONGEST_GAP:
        return []
    return [label] if ":" in pairs[0] else [label, pairs[0]]


def _both(own: Declared | None, above: Declared | None) -> Declared | None:
    """A cell's own label goes first; the caption gives the scale of what has only a currency."""
    if own is None or above is None:
        return own or above
    money = own.unit in {code for code, _ in CURRENCIES.values()} and own.factor == 1
    return Declared(own.unit, above.factor, above.everywhere) if money else own


def _under(quantity: Quantity, declared: Declared | None) -> Quantity:
    if declared is None or not quantity.readings or quantity.days:
        return quantity
    first = quantity.readings[0]
    said = first.unit if first.unit not in (UNSAID, COUNTED) else ""
    fits = not said or (declared.unit in (UNSAID, said) and quantity.said[-1:].isdigit())
    if not fits:
        return quantity
    plain = [r for r in quantity.readings if r.unit in (UNSAID, COUNTED, said)]
    scaled = tuple(
        Reading(
            one.value * declared.factor, said or declared.unit,
            (one.step or Fraction(1)) * declared.factor, one.coarse * declared.factor,
            declared.measure,
        )
        for one in plain
    )  # fmt: skip
    if not declared.everywhere:
        return dataclasses.replace(quantity, readings=(*quantity.readings, *scaled))
    # With its unit declared elsewhere, the number as it stands is that of no other unit; under a
    # scale it may still be one that the scale does not concern, such as a percentage.
    rest = COUNTED if declared.measured else NO_MONEY
    bare = tuple(dataclasses.replace(r, unit=r.unit or rest) for r in quantity.readings)
    return dataclasses.replace(quantity, readings=(*bare, *scaled))


def _in_brackets(quantity: Quantity) -> Quantity:
    """The number of a cell that is all in brackets, as accountants write what is below zero."""
    values = {(one.value, one.unit) for one in quantity.readings}
    negative = [
        dataclasses.replace(one, value=-one.value)
        for one in quantity.readings
        if (-one.value, one.unit) not in values
    ]
    return dataclasses.replace(quantity, readings=(*quantity.readings, *negative), bracketed=True)


def _factor(scale: str, money: str | None) -> Fraction | None:
    """The scale's factor; None for a letter without a currency ("(m)" is metres)."""
    name = scale.lower()
    if name in _LETTERS:
        return Fraction(10) ** _LETTERS[name] if money or name[0] == "0" else None
    return SCALES[name]
