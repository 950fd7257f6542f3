"""Title, author and date from a PDF's metadata, where they say something."""

from __future__ import annotations

import re
from datetime import date

_PRODUCER_PREFIX = re.compile(
    r"\s*microsoft (?:office )?(?:word|powerpoint|excel|publisher)\b", re.IGNORECASE
)
_FILE_NAME = re.compile(
    r".*\.(?:docx?|docm|dotx?|pdf|tex|dvi|indd|rtf|xlsx?|pptx?|html?|qxd|qxp|e?ps|txt|fm|p65|pmd|odt|odp|ods|"
    r"cdr|ai|md|wpd|pages|key|tmp|jpe?g|png|tiff?|xml|svg|vsdx?)\W*",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"(?:\W*(?:untitled|no title|title|document|doc|presentation|powerpoint presentation|slide|"
    r"layout|print|scan|scanned document|new document|unknown|unnamed|none|null|n/?a|test|blank|"
    r"anonymous|pdf|report|book|template|default|unbenannt|unbekannt|ohne titel|"
    r"sans titre|dokument|"
    r"sin título|senza titolo)\W*\d*\W*)",
    re.IGNORECASE,
)
_NOT_AUTHOR = re.compile(
    r"\W*(?:anonymous|unknown|user|users?\d*|admin|administrator|owner|author|none|null|n/?a|"
    r"root|pc|default|guest|microsoft.*|windows.*|unbekannt|nobody)\W*",
    re.IGNORECASE,
)
_PATH_OR_URL = re.compile(r"(?:[a-zA-Z]:\\|\\\\|/|~/|file:|https?:|www\.)\S*")
_DATE = re.compile(r"\s*(?:D:)?\s*(\d{4})(?:-?(\d{2}))?(?:-?(\d{2}))?")


def useful_title(raw: str | None) -> str | None:
    """The title, or None for placeholders, file names, paths, ids and garbage."""
    title = _plain(raw)
    if title is None or len(title) > 300:
        return None
    letters = sum(map(str.isalpha, title))
    if letters < 2 or letters < 0.35 * len(title.replace(" ", "")):
        return None
    if len(title) < 4 and title.isascii():
        return None
    for pattern in (_FILE_NAME, _PLACEHOLDER, _PATH_OR_URL):
        if pattern.fullmatch(title):
            return None
    if _PRODUCER_PREFIX.match(title):
        return None
    one_word = " " not in title
    if one_word and title.isascii() and (re.search(r"[\d_]", title) or title.islower()):
        return None  # an id or a file's stem: "ms12-final_v2", "thesis"
    return title


def useful_author(raw: str | None) -> str | None:
    """The author, or None for placeholders and account names."""
    author = _plain(raw)
    if author is None or len(author) > 300 or sum(map(str.isalpha, author)) < 2:
        return None
    if _NOT_AUTHOR.fullmatch(author) or _PATH_OR_URL.fullmatch(author):
        return None
    return author


def iso_date(raw: str | None) -> str | None:
    """ISO 8601 date (or year, or year and month) of a PDF date, "D:20230105161720-05'00'"."""
    match = _DATE.match(raw or "")
    if match is None:
        return None
    year, month, day = match[1], match[2], match[3]
    try:
        date(int(year), int(month or 1), int(day or 1))
    except ValueError:
        return None
    if not 1900 <= int(year) <= 2200:
        return None
    return "-".join(part for part in (year, month, day) if part)


def _plain(raw: str | None) -> str | None:
    if not raw:
        return None
    text = " ".join("".join(c if c.isprintable() else " " for c in raw).split())
    return None if not text or "\ufffd" in text else text
