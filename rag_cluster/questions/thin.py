"""Chunks that hold too little to be asked about, by rules that need no model."""

from __future__ import annotations

import re

from rag_cluster.answer.guardrails.injection import instructions
from rag_cluster.answer.words import content_words, words

# What stands on many pages and says nothing of a subject.
_BOILERPLATE = re.compile(
    r"""
    all\s+rights\s+reserved | \u00a9 | \(c\)\s*\d{4} | \bcopyright\s+(?:\d{4}|\u00a9|\(c\))
    | \b(?:accept|uses?|manage)\s+(?:all\s+)?cookies | \bcookie\s+(?:policy|settings|notice)
    | \b(?:terms|conditions)\s+of\s+(?:use|service) | \bprivacy\s+(?:policy|notice|statement)
    | \bintentionally\s+(?:left\s+)?blank | \bunsubscribe\b | \bsubscribe\s+to\s+our\b
    | \b(?:sign|log)\s+(?:in|up)\b | \bclick\s+here\b | \bskip\s+to\s+(?:main\s+)?content
    | \bback\s+to\s+top\b | \bshare\s+(?:on|this)\b | \bfollow\s+us\b | \bread\s+more\b
    | \btable\s+of\s+contents\b | \balle\s+rechte\s+vorbehalten | \binhaltsverzeichnis\b
    | \btous\s+droits\s+r\u00e9serv\u00e9s | \btodos\s+los\s+derechos\s+reservados
    | \u7248\u6743\u6240\u6709
    """,
    re.IGNORECASE | re.VERBOSE,
)
_LINK = re.compile(r"(?:https?://|www\.)\S+|\S+@\S+\.\w+")
_LEADER = re.compile(r"(?:\.\s?){4,}")
# A phrase of boilerplate for so many words, or more, makes the whole boilerplate.
_WORDS_PER_PHRASE = 20
_LETTERS = 0.5  # the least share of letters and digits in what is not white space
_DISTINCT_LINES = 0.5
_FEW_LINES = 4


def too_little(text: str, header: str, min_words: int) -> str | None:
    """Why a chunk holds too little to be asked about, in few words; None where it holds enough.

    `header` are the repeated header rows of a table. Words are content words, each counted once.
    """
    found = content_words(f"{header}\n{text}")
    if len(found) < min_words:
        return "few words"
    marks = [character for character in text if not character.isspace()]
    plain = sum(character.isalnum() for character in marks)
    if plain < _LETTERS * len(marks) or len(_LEADER.findall(text)) > 2:
        return "mostly symbols"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) >= _FEW_LINES and len(set(lines)) < _DISTINCT_LINES * len(lines):
        return "repeated lines"
    links = sum(len(link) for link in _LINK.findall(text))
    if links > _LETTERS * len(marks):
        return "mostly links"
    if len(_BOILERPLATE.findall(text)) * _WORDS_PER_PHRASE >= len(words(text)):
        return "boilerplate"
    if instructions(text):
        return "reads like instructions to a model"
    return None
