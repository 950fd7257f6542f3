"""Digits with their separators, as exact values.

"1,234.5", "1.234,5", "1'234.5" and "1 234.5" (with a no-break space) are one number. One separator
before three digits is ambiguous: "1,234" is read as English does, and both ways in a language that
writes a decimal comma; "1.234" likewise.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from fractions import Fraction

# Spaces that only typography puts between digits; an ordinary one parts two numbers, except where
# two groups of three follow.
_GROUPING = "'\u2019\u00a0\u202f\u2009"
_PARTS = "\u00bd\u2153\u2154\u00bc\u00be\u215b\u215c\u215d\u215e"  # 1/2, 1/3, 2/3, ...
_TEN_TO = r"(?:[eE][+-]?\d{1,2}(?![\d\w])|[ ]?[x\u00d7\u00b7][ ]?10\^\(?-?\d{1,2}\)?)"
NUMERAL = (
    rf"(?:\d{{1,3}}(?:[ ]\d{{3}}){{2,}}(?![\d])|\d+(?:[.,{_GROUPING}]\d+)*|(?<![\d.])\.\d+)"
    rf"[{_PARTS}]?{_TEN_TO}?"
)
_POWER = re.compile(r"(?:[eE]|[ ]?[x\u00d7\u00b7][ ]?10\^\(?)([+-]?\d{1,2})\)?$")
_THREES = re.compile(r"\d{1,3}(?:\D\d{3})+$")
_INDIAN = re.compile(r"\d{1,2}(?:,\d\d)+,\d{3}$")


@dataclass(frozen=True, slots=True)
class Numeral:
    """A value, its last digit's worth, and the same without the zeros at a whole number's end."""

    value: Fraction
    step: Fraction
    coarse: Fraction

    def times(self, factor: Fraction) -> Numeral:
        """Scaled, its precision with it."""
        return Numeral(self.value * factor, self.step * factor, self.coarse * factor)


def numerals(text: str, *, decimal_comma: bool = False) -> list[Numeral]:
    """What a match of NUMERAL can mean, likeliest first; nothing for "1.2.3" and the like."""
    power = _POWER.search(text)
    factor = Fraction(10) ** int(power.group(1)) if power else Fraction(1)
    digits = text[: power.start()] if power else text
    part = Fraction(0)
    if digits[-1] in _PARTS:
        part = Fraction(unicodedata.normalize("NFKC", digits[-1]).replace("\u2044", "/"))
        digits = digits[:-1]
    plain = [_exact(one) for one in _plain(digits, decimal_comma=decimal_comma)]
    if part:
        plain = [Numeral(one.value + part, Fraction(0), Fraction(0)) for one in plain]
    return [one.times(factor) for one in plain]


def _plain(digits: str, *, decimal_comma: bool) -> list[str]:
    """The digits with a point for decimals and nothing else."""
    whole, mark, rest = _parted(digits)
    if mark:  # grouped by spaces or apostrophes: what is left can only be a decimal sign
        grouped = _THREES.match(whole) is not None and not re.search(r"[.,].*[.,]", rest)
        return [re.sub(r"\D", "", whole) + rest.replace(",", ".")] if grouped else []
    points, commas = digits.count("."), digits.count(",")
    if points and commas:
        return _both(digits)
    if points + commas > 1:
        grouped = _THREES.match(digits) is not None or _INDIAN.match(digits) is not None
        return [re.sub(r"\D", "", digits)] if grouped else []
    if not points + commas:
        return [digits]
    decimal = digits.replace(",", ".")
    if not _THREES.match(digits) or digits[0] == "0":
        return [decimal]
    thousands = re.sub(r"\D", "", digits)
    if decimal_comma:
        return [thousands, decimal] if points else [decimal, thousands]
    return [thousands] if commas else [decimal]


def _parted(digits: str) -> tuple[str, str, str]:
    """Groups, the mark between them, and what follows the last group: a decimal sign and digits."""
    found = re.search(rf"[ {_GROUPING}]", digits)
    if not found:
        return digits, "", ""
    mark = found.group()
    groups = re.match(rf"\d+(?:{re.escape(mark)}\d+)+", digits)
    end = groups.end() if groups else 0
    return digits[:end], mark, digits[end:]


def _both(digits: str) -> list[str]:
    """Points and commas: the last one is the decimal sign, the others part thousands."""
    decimal = max(digits.rfind("."), digits.rfind(","))
    whole, rest = digits[:decimal], digits[decimal + 1 :]
    alike = digits[decimal] not in whole
    if not alike or not (_THREES.match(whole) or _INDIAN.match(whole)):
        return []
    return [f"{re.sub(r'[.,]', '', whole)}.{rest}"]


def _exact(plain: str) -> Numeral:
    whole, _, decimals = plain.partition(".")
    step = Fraction(1, 10 ** len(decimals))
    coarse = step
    if not decimals:
        zeros = len(whole) - len(whole.rstrip("0"))
        coarse = Fraction(10 ** (zeros if whole.strip("0") else 0))
    return Numeral(Fraction(f"0{plain}"), step, coarse)
