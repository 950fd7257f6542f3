"""What the words around a number say of it: about so much, by so much less, of the same unit."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from fractions import Fraction

from rag_cluster.answer.quantities.numerals import NUMERAL, numerals
from rag_cluster.answer.quantities.quantity import (
    COUNTED,
    NEAR,
    UNSAID,
    Hedge,
    Quantity,
    Reading,
    before,
)
from rag_cluster.answer.quantities.units import CURRENCIES

_HEDGES: dict[Hedge, str] = {
    "under": r"\b(?:(?:less|fewer|lower|smaller)\sthan|under|below|nearly|almost|up\sto|close\sto|"
    r"knapp|fast|casi|pr\u00e8s\sde)\s",
    "over": r"\b(?:(?:more|greater|higher|larger)\sthan|over|above|exceed(?:s|ed|ing)?|mehr\sals|"
    r"\u00fcber|plus\sde|m\u00e1s\sde)\s",
    "about": r"(?:\b(?:about|around|roughly|approximately|approx\.?|circa|ca\.?|some|rund|etwa|"
    r"ungef\u00e4hr|environ|unos)\s|[~\u2248]\s?)",
}
_HEDGED = {
    hedge: re.compile(rf"{words}(?:an?\s)?\Z", re.IGNORECASE) for hedge, words in _HEDGES.items()
}
HEDGES = re.compile("|".join([*_HEDGES.values(), r"\bbetween\s(?=\s)"]), re.IGNORECASE)
_FALLS = re.compile(
    r"\b(?:declin|decreas|f[ae]ll|drop|down\b|loss|lost\b|negativ|minus|lower|less\b|reduc|shr[aiu]nk|"
    r"contract|deficit|outflow|slip|s[au]nk|cut\b|below\szero|used\sin|r\u00fcckgang|verlust|gesunken|"
    r"baisse|perte|p\u00e9rdida|ca\u00edda)",
    re.IGNORECASE,
)
_RISES = re.compile(
    r"\b(?:gain|profit|surplus|inflow|rise|rose|risen|gr[eo]w|growth|increas|climb|positive|earned)",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(r"[.;:!?]\s|\n\n|\||\t| {3}")
_SHARING = {UNSAID, COUNTED, *(code for code, _ in CURRENCIES.values())}
_BETWEEN = re.compile(
    r"\s?[-\u2013]\s?|,?\s(?:to|and|or|bis|und|oder|\u00e0|et|ou|y)\s|,\s", re.IGNORECASE
)


def share_units(text: str, found: Sequence[Quantity]) -> list[Quantity]:
    """In "10 to 12 %" and "2, 3 or 4 million", a number also has the scale and unit of the last."""
    shared = list(found)
    last: Quantity | None = None
    for place in range(len(found) - 1, -1, -1):
        left = found[place]
        after = found[place + 1] if place + 1 < len(found) else None
        joined = after and _BETWEEN.fullmatch(text, left.end, after.start)
        if not _is_plain(left):
            last = left
        elif joined and last is not None:
            shared[place] = dataclasses.replace(left, readings=(*left.readings, _like(left, last)))
        else:
            last = None
    return shared


def with_wording(text: str, quantity: Quantity) -> Quantity:
    """The quantity with its hedge, and as a negative number too where a word says it fell."""
    said = before(text, quantity.start)
    for hedge, words in _HEDGED.items():
        if words.search(said):
            quantity = dataclasses.replace(quantity, hedge=hedge)
            break
    clause = _CLAUSE_END.split(said)[-1]
    after = _CLAUSE_END.split(text[quantity.end : quantity.end + NEAR])[0]
    if not (_FALLS.search(clause) or _FALLS.search(after)):
        rises = _RISES.search(clause) or _RISES.search(after)
        return dataclasses.replace(quantity, rises=rises is not None)
    values = {(one.value, one.unit) for one in quantity.readings}
    negative = [
        dataclasses.replace(one, value=-one.value)
        for one in quantity.readings
        if one.value > 0 and (-one.value, one.unit) not in values
    ]
    return dataclasses.replace(quantity, readings=(*quantity.readings, *negative))


def _is_plain(quantity: Quantity) -> bool:
    """Whether it is a number without a scale, and without a unit but that of money before it."""
    digits = quantity.said[-1:].isdigit() or quantity.said.isalpha()
    return not quantity.days and quantity.readings[0].unit in _SHARING and digits


def _like(left: Quantity, right: Quantity) -> Reading:
    """The left number with the factor and the unit of the right one."""
    numeral = re.search(NUMERAL, right.said)
    plain = numerals(numeral.group()) if numeral else []
    if right.days or not plain:
        return left.readings[0]
    first, one = right.readings[0], left.readings[0]
    factor = abs(first.value / plain[0].value) if plain[0].value else Fraction(1)
    unit = one.unit if first.unit in (UNSAID, COUNTED) else first.unit
    step = one.step or Fraction(1)
    measure = first.measure if unit == first.unit else one.measure
    return Reading(one.value * factor, unit, step * factor, one.coarse * factor, measure)
