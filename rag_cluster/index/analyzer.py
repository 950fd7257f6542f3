"""Text to the terms of BM25; the same for documents and queries.

What it does, in order:
- Unicode normalisation NFKC (full-width forms become plain ones), typographic apostrophes become '.
- Words are runs of letters, digits, marks and underscores; a point or comma between digits and an
  apostrophe inside a word do not end it (as in Unicode Standard Annex 29, rules WB6, 7, 11 and 12).
  A hyphen does.
- Numbers lose their thousands separators and a fraction of zeros: "$1,577.00" gives 1577.
- An identifier gives itself and its parts: "parseHTMLPage" gives parsehtmlpage, parse, html, page.
- Scripts that are written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) and Korean
  are cut into overlapping bigrams (as Lucene's CJKBigramFilter does); a single character stays.
- Lower case, then stop words of the language are dropped, then the language's Snowball stemmer
  (Porter, "Snowball: A language for stemming algorithms", 2001).
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache

import Stemmer

from rag_cluster.errors import ConfigError

# Raised whenever the same text may give other terms: an index names the version that made it.
VERSION = 2

# ISO 639-1 codes of the languages that have a Snowball stemmer or a list of stop words.
CODES = {
    "ar": "arabic", "hy": "armenian", "eu": "basque", "ca": "catalan", "zh": "chinese",
    "cs": "czech", "da": "danish", "nl": "dutch", "en": "english", "eo": "esperanto",
    "et": "estonian", "fi": "finnish", "fr": "french", "de": "german", "el": "greek",
    "hi": "hindi", "hu": "hungarian", "id": "indonesian", "ga": "irish", "it": "italian",
    "ja": "japanese", "ko": "korean", "lt": "lithuanian", "ne": "nepali", "no": "norwegian",
    "fa": "persian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian",
    "sr": "serbian", "st": "sesotho", "es": "spanish", "sv": "swedish", "ta": "tamil",
    "th": "thai", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip

# The languages with stop words, and how bm25s calls its list. The long English one, with the
# question words, is worth .02 of nDCG@10 over the short one.
_STOP_WORDS = {
    language: f"STOPWORDS_{language.upper()}"
    for language in (
        "chinese", "danish", "dutch", "french", "german", "italian", "korean", "norwegian",
        "portuguese", "russian", "spanish", "swedish", "turkish",
    )
} | {"english": "STOPWORDS_EN_PLUS"}  # fmt: skip

# Languages that write 1,577.5 with a comma for thousands; the others that are known write 1.577,5.
POINT_DECIMAL = {
    "none", "english", "chinese", "japanese", "korean", "thai", "hindi", "nepali", "tamil",
    "irish", "arabic", "persian", "sesotho", "yiddish",
}  # fmt: skip

# Languages in which an apostrophe joins two words (l'index, dell'anno); elsewhere it is a letter.
ELISION = {"french", "italian", "catalan"}

_MAX_CACHE = 500_000  # words whose terms are remembered; some 100 MB at most

_BIGRAM_SCRIPTS = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46"  # Thai letters; its marks are added below
    "\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff"  # Lao, Burmese, Khmer
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Hangul
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_IDENTIFIER = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]|[^\W_]_+[^\W_]")
_LONG_NUMBER = re.compile(r"(?<![0-9])([0-9]{3,})(?![0-9])")
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\dA-Z_]+|[A-Z]+|\d+")


class Analyzer:
    """Cuts text into terms for one language.

    `language` is an English name or an ISO 639-1 code; "none" neither stems nor drops stop words.
    Raises ConfigError for an unknown language.
    """

    def __init__(self, language: str) -> None:
        self.language = language_name(language)
        self._words = _word_pattern()
        self._terms = _TermCache(_terms_of_word(self.language))

    def tokens(self, text: str) -> list[str]:
        """The terms of a text, in its order; a term that occurs twice stands there twice."""
        words = _ASCII_WORD
        if not text.isascii():
            words = self._words
            text = unicodedata.normalize("NFKC", text).replace("\u2019", "'")
        terms: list[str] = []
        cached = self._terms
        for word in words.findall(text):
            terms.extend(cached[word])
        return terms

    def token_lists(self, texts: Iterable[str]) -> Iterable[list[str]]:
        """The terms of each text, one after another."""
        return map(self.tokens, texts)


@cache
def load_analyzer(language: str) -> Analyzer:
    """The analyzer of a language, made once in a process: it remembers the words it has seen."""
    return Analyzer(language)


def language_name(language: str) -> str:
    """The English name of a language given by name or code. Raises ConfigError if unknown."""
    name = language.strip().lower()
    name = CODES.get(name, name)
    known = sorted(CODES.values())
    if name in known or name == "none":
        return name
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(
        f"index.lexical.language {language!r} is not known; {hint}known are: "
        f"{', '.join(known)}, their ISO 639-1 codes, and none"
    )


class _TermCache(dict[str, tuple[str, ...]]):
    """Word to terms; forgets everything when it has grown too large."""

    def __init__(self, terms_of: Callable[[str], tuple[str, ...]], limit: int = _MAX_CACHE) -> None:
        super().__init__()
        self._limit = limit
        self._terms_of = terms_of

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= self._limit:
            self.clear()
        terms = self[word] = self._terms_of(word)
        return terms


def _terms_of_word(language: str) -> Callable[[str], tuple[str, ...]]:
    stemmed = language in Stemmer.algorithms()
    stem = Stemmer.Stemmer(language).stemWord if stemmed else str
    stop = _stop_words(language)
    elision = language in ELISION
    thousands, decimal = (",", ".") if language in POINT_DECIMAL else (".", ",")

    def terms(word: str) -> tuple[str, ...]:
        if _is_bigram_script(word[0]):
            parts = _bigrams(word)
        elif "." in word or "," in word:
            parts = _numbers(word, thousands, decimal)
        elif elision and "'" in word:
            parts = word.split("'")
        else:
            parts = _identifier(word)
        lowered = [part.lower() for part in parts]
        return tuple(stem(part) for part in lowered if part and part not in stop)

    return terms


def _stop_words(language: str) -> frozenset[str]:
    # Imported here: bm25s brings numba, which takes half a second of every process that starts.
    from bm25s import stopwords

    name = _STOP_WORDS.get(language)
    return frozenset(getattr(stopwords, name) if name else ())


def _bigrams(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]


def _identifier(word: str) -> list[str]:
    whole = word.strip("_")
    if _IDENTIFIER.search(whole):
        parts = _PART.findall(whole)
    elif _LONG_NUMBER.search(whole) and not whole.isdigit():
        # FY2018 is found by 2018, and 2023Q4 by 2023 and by Q4.
        parts = [part for part in _LONG_NUMBER.split(whole) if part]
    else:
        return [whole]
    return [whole, *parts] if len(parts) > 1 else [whole]


def _numbers(word: str, thousands: str, decimal: str) -> list[str]:
    grouped = rf"(\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+)((?:{re.escape(decimal)}\d+)?)(\w*)"
    if match := re.fullmatch(grouped, word):
        whole, fraction, unit = match.groups()
        word = whole.replace(thousands, "") + fraction + unit
    # One separator is a decimal sign; with more of them the word is a list, a date or a version.
    if match := re.fullmatch(rf"(\d+){re.escape(decimal)}(\d+)", word):
        whole, fraction = match.groups()
        return [whole if not fraction.strip("0") else f"{whole}.{fraction}"]
    return word.split(",")


# What `_word_pattern` finds in ASCII text, in a third of its time.
_ASCII_WORD = re.compile(
    r"[A-Za-z0-9_]+(?:(?:(?<=[0-9])[.,](?=[0-9])|'(?=[A-Za-z0-9_]))[A-Za-z0-9_]+)*"
)


@cache
def _word_pattern() -> re.Pattern[str]:
    # Combining marks belong to the word (Devanagari, Arabic, Thai), but `\w` leaves them out.
    marks = "".join(_mark_ranges())
    letter = rf"[^\W{_BIGRAM_SCRIPTS}]"
    plain = rf"{letter}+(?:[{marks}]+{letter}*)*"
    joined = rf"{plain}(?:(?:(?<=\d)[.,](?=\d)|'(?={letter})){plain})*"
    return re.compile(rf"{joined}|[{_BIGRAM_SCRIPTS}][{_BIGRAM_SCRIPTS}{marks}]*")


@cache
def _bigram_pattern() -> re.Pattern[str]:
    return re.compile(f"[{_BIGRAM_SCRIPTS}]")


def _is_bigram_script(character: str) -> bool:
    return _bigram_pattern().match(character) is not None


def _mark_ranges() -> Iterable[str]:
    """Ranges of a character class: the code points of category M below U+20000."""
    start = None
    for point in range(0x300, 0x20001):
        is_mark = unicodedata.category(chr(point)).startswith("M")
        if is_mark and start is None:
            start = point
        elif not is_mark and start is not None:
            yield f"{chr(start)}-{chr(point - 1)}"
            start = None
