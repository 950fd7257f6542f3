"""Text made clean at the door: what comes out of here can be encoded, indexed and shown.

`clean()` may change the length and is called before any span is computed; `scrub()` keeps every
position and is the last net under all parsers.
"""

from __future__ import annotations

import re
import unicodedata

_NEWLINES = re.compile("\r\n?|[\u2028\u2029\u0085\v\f]")
# What has no place in text: C0 and C1 controls but newline and tab, soft hyphens aside, byte order
# marks inside the text, interlinear annotation marks and the non-characters.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\ufff9-\ufffb\ufffe\uffff]")
_SOFT_HYPHEN = re.compile("\u00ad")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_BLANK_LINES = re.compile("\n{4,}")

# UTF-8 that was read as Windows-1252: a lead byte and its continuation bytes as characters.
_CONTINUATION = "[\u0080-\u00bf" + "".join(
    chr(ord(bytes([byte]).decode("cp1252")))
    for byte in range(0x80, 0xA0)
    if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)
)
_MOJIBAKE = re.compile(
    f"[\u00c2-\u00df]{_CONTINUATION}]|[\u00e0-\u00ef]{_CONTINUATION}]{{2}}"
    f"|[\u00f0-\u00f4]{_CONTINUATION}]{{3}}"
)
_MOJIBAKE_LEAST = 3  # fewer of them may be meant


def clean(text: str) -> str:
    """The text with one kind of newline, no controls, whole characters, in Unicode form NFC.

    Characters are not changed into others that look like them (no NFKC): a formula keeps its
    exponents. Tabs stay, since they keep the cells of a row apart.
    """
    text = _NEWLINES.sub("\n", text)
    if text.isascii():
        return _CONTROLS.sub("", text)
    text = _join_surrogates(text)
    text = _repair_mojibake(text)
    text = _SOFT_HYPHEN.sub("", _CONTROLS.sub("", text))
    return unicodedata.normalize("NFC", text)


def tidy(text: str) -> str:
    """Clean text without spaces at line ends and with at most two empty lines in a row."""
    lines = (line.rstrip(" \t") for line in clean(text).split("\n"))
    return _BLANK_LINES.sub("\n\n\n", "\n".join(lines)).strip("\n")


def scrub(text: str) -> str:
    """The text with every control character a space and every lone surrogate U+FFFD.

    No position changes: `len(scrub(text)) == len(text)`.
    """
    return _SURROGATE.sub("\ufffd", _CONTROLS.sub(" ", text))


def one_line(text: str) -> str:
    """Clean text on one line with single spaces: for titles and table cells."""
    return " ".join(clean(text).split())


def _join_surrogates(text: str) -> str:
    if _SURROGATE.search(text) is None:
        return text
    text = _SURROGATE_PAIR.sub(
        lambda pair: pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text
    )
    return _SURROGATE.sub("\ufffd", text)


def _repair_mojibake(text: str) -> str:
    if len(_MOJIBAKE.findall(text)) < _MOJIBAKE_LEAST:
        return text
    return _MOJIBAKE.sub(lambda found: _read_again(found.group()), text)


def _read_again(characters: str) -> str:
    data = bytearray()
    for character in characters:
        try:
            data += character.encode("cp1252")
        except UnicodeEncodeError:
            data.append(ord(character) & 0xFF)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return characters
