"""Units of text, their n-grams ("shingles"), and how much two sets of them share.

A unit is a word; in scripts that are written without spaces each character is one.
"""

from __future__ import annotations

import re
import unicodedata

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
# Thai, Lao, Myanmar and Khmer have no spaces between words either.
_SPACELESS = CJK + "\U00020000-\U0003ffff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_UNIT = re.compile(rf"[{_SPACELESS}]|[^\W{_SPACELESS}]+(?:[.,]\d+)*")


def normalize(text: str) -> str:
    """The text in compatibility form (NFKC), case-folded."""
    return unicodedata.normalize("NFKC", text).casefold()


def units(text: str) -> list[str]:
    """The units in order, case-folded; numbers keep their points and commas ("1,234.5")."""
    return _UNIT.findall(normalize(text))


def shingles(text: str, size: int) -> frozenset[tuple[str, ...]]:
    """The n-grams of the text's units (Broder, "On the resemblance and containment", 1997)."""
    found = units(text)
    return frozenset(tuple(found[i : i + size]) for i in range(len(found) - size + 1))


def jaccard(left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]) -> float:
    """|left and right| / |left or right|; 0 where both are empty (Jaccard, 1912)."""
    union = len(left | right)
    return len(left & right) / union if union else 0.0
