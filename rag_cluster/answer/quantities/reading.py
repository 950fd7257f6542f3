"""Every number of a text as a Quantity, in order, none twice."""

from __future__ import annotations

import re

from rag_cluster.answer.quantities.amounts import amounts, plain_years, ratios, spelled_amounts
from rag_cluster.answer.quantities.calendar import clocks, dates
from rag_cluster.answer.quantities.declared import under_their_labels
from rag_cluster.answer.quantities.quantity import NEAR, Quantity, before
from rag_cluster.answer.quantities.wording import HEDGES, share_units, with_wording

# Full-width forms and signs as their plain ones, each one character, so that spans hold.
_PLAIN = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x2212: "-", 0x3000: " "}

# What refers to a place: pages, figures, notes, addresses; and markers such as [1] or [2, 3].
_REFERENCE = re.compile(
    r"\b(?:pages?|pp?\.|figures?|fig\.|tables?|sections?|sec\.|chapters?|appendix|equations?|eq\.|"
    r"steps?|item|footnote|exhibit|no\.|seite|abschnitt|abbildung|tabelle)\s?"
    r"#?\d+(?:\.\d+)*(?:\s?(?:[-\u2013]|and|to)\s?\d+)?(?![\w%])"
    r"|\u00a7\s?\d+(?:\.\d+)*|(?<!\w)#\d+\b|https?://\S+|\S+@\S+\.\w+"
    r"|\[\^?\d{1,4}(?:\s*[,;\u2013-]\s*\d{1,4})*\]|\u3010\d+\u3011",
    re.IGNORECASE,
)
_MARK = re.compile(
    r"^[ \t]*(?:>[ \t]*)*(?:[-*\u2022][ \t]+)?(?:\*\*)?(?P<mark>\(?(?P<number>\d{1,2})[.)])(?=\s)"
    r"|^#{1,6}[ \t]+(?P<heading>\d{1,2}(?:\.\d{1,2})*\.?)(?=\s)",
    re.MULTILINE,
)
_DATE_AFTER = re.compile(
    r"\.\s+(?:jan|feb|m\u00e4r|apr|mai|jun|jul|aug|sep|okt|nov|dez)", re.IGNORECASE
)
_OPENS = re.compile(r"(?:[.:;!?]\W{0,3}\n|\n[ \t]*\n)[ \t]*\Z")


def read(text: str, header: str = "", caption: str = "") -> list[Quantity]:
    """The numbers of a text by their place.

    `header` is the repeated header of a split table; `caption` is what stands above the text
    (title, section), where a scale such as "in millions" may be declared. Markers such as [1], the
    marks of list items, references to pages and figures, addresses, and numbers that are parts of
    names are no quantities.
    """
    plain = text.translate(_PLAIN)
    masked = _masked(plain)
    found: list[Quantity] = []
    taken = bytearray(len(text))
    for scan in (dates, clocks, ratios, plain_years, amounts, spelled_amounts):
        for quantity in scan(masked):
            if not any(taken[quantity.start : quantity.end]):
                taken[quantity.start : quantity.end] = b"\1" * (quantity.end - quantity.start)
                found.append(quantity)
    found.sort(key=lambda quantity: quantity.start)
    found = [with_wording(masked, quantity) for quantity in share_units(masked, found)]
    return under_their_labels(plain, found, header, caption)


def without_numbers(text: str) -> str:
    """The text with blanks for its quantities, their hedges, the marks of items and references."""
    blanked = list(_masked(text))
    for quantity in read(text):
        blanked[quantity.start : quantity.end] = " " * (quantity.end - quantity.start)
    return HEDGES.sub(lambda match: " " * len(match.group()), "".join(blanked))


def _masked(text: str) -> str:
    """The text with blanks in the place of digits that are no quantities."""
    blanked = list(text)
    marks = [match.span(match.lastgroup or 0) for match in _list_marks(text)]
    for start, end in [*marks, *(match.span() for match in _REFERENCE.finditer(text))]:
        blanked[start:end] = " " * (end - start)
    return "".join(blanked)


def _list_marks(text: str) -> list[re.Match[str]]:
    """Numbers that count the items of a list or the headings of a document.

    A line may begin with a number that ends the sentence before it: a mark is the first, or follows
    on the one before, or stands after a closed or empty line.
    """
    found: list[re.Match[str]] = []
    seen = {0}
    for match in _MARK.finditer(text):
        number = int(match["number"] or 0)
        opens = number - 1 in seen or _opens(text, match.start())
        if (opens or not number) and not _DATE_AFTER.match(text, match.end() - 1):
            found.append(match)
            seen.add(number)
    return found


def _opens(text: str, at: int) -> bool:
    """Whether what stands before is closed: nothing, a sentence, or an empty line."""
    near = before(text, at)
    return _OPENS.search(near) is not None or (at <= NEAR and not near.strip())
