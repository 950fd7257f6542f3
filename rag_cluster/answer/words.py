"""Words of any script.

Nothing is stemmed: an answer and its passage come from the same words. In Chinese, Japanese and
Korean text, where spaces do not part words, neighbouring characters (bigrams) stand for words.
"""

from __future__ import annotations

import re
import unicodedata

from rag_cluster.shingles import CJK, normalize

_TOKEN = re.compile(rf"[{CJK}]+|[^\W{CJK}]+(?:[.,]\d+)*")
_CJK_RUN = re.compile(rf"[{CJK}]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

# Words that say nothing of a text's subject, of the languages met most. Small on purpose: rarity
# among the candidates does the rest.
_STOP_WORDS_TEXT = """
a an and are as at be been but by can could did do does for from had has have he her his how i if
in into is it its may me my not of on or our shall she should so such than that the their them then
there these they this those to was we were what when where which who whom whose why will with would
you your
am auf aus bei das dass dem den der des die ein eine einem einen einer eines er es für hat ich ihr
im ist man mit nicht oder sich sie sind und von wann war welche welcher welches wer werden wie wird
wo wurde zu zum zur
au aux avec ce ces cette dans du elle est et il ils la le les leur ne ou où par pas pour quand que
quel quelle qui se sont sur un une
al como con cuál cuándo del el en entre lo los las más para por qué quién su sus una y o
"""
STOP_WORDS = frozenset(_STOP_WORDS_TEXT.split())


def words(text: str) -> list[str]:
    """Case-folded words in order; numbers keep their points and commas ("1,234.5").

    A run of n CJK characters gives its n - 1 bigrams, or itself where n is 1.
    """
    found: list[str] = []
    for token in _tokens(text):
        if len(token) > 1 and _CJK_RUN.match(token):
            found.extend(token[i : i + 2] for i in range(len(token) - 1))
        else:
            found.append(token)
    return found


def has_cjk(text: str) -> bool:
    """Whether the text holds a Chinese, Japanese or Korean character."""
    return _CJK_RUN.search(text) is not None


def content_words(text: str) -> set[str]:
    """The words without stop words; all the words where nothing else would be left."""
    every = set(words(text))
    return every - STOP_WORDS or every


def numbers(text: str) -> set[str]:
    """The numbers as written, without thousands commas: "1,234.5 kg in 2020" -> {1234.5, 2020}."""
    return {
        re.sub(r",(?=\d{3}(?!\d))", "", number)
        for number in _NUMBER.findall(unicodedata.normalize("NFKC", text))
    }


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(normalize(text))
