"""Whether a question leans on what was said before it: told from its words alone, by rules.

A question leans where it
- is a fragment: it opens as one ("What about ..."), or has too few words of its own ("Why?", "And
  in June?");
- points back: with a pronoun before which it names nothing that this could stand for ("How do I
  open it?", but not "When the pump is hot, how do I open it?"), or with a word that always points
  ("these limits", "the latter", "what else").

The rules know English, German, French and Spanish, and the pronouns of Chinese, Japanese and
Korean. They are made to leave a question alone in doubt: what is joined to it by mistake leads a
search astray, and a follow-up that is missed can be asked again in full.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_WORD = re.compile(r"[^\W_]+")
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_HAN_POINTS = re.compile(
    r"[它他她這这那其該该此]|^(?:还有|還有|另外)|呢\W*$|"
    r"それ|これ|あれ|その|この|あの|そこ|彼|그것|이것|저것|거기"
)
_SHORT_HAN = 3  # characters: "why?", "how much?"
_MEASURES = frozenset(  # "this year" needs no year named before, and "what year" names none
    ("year", "month", "week", "day", "morning", "evening", "time", "colour", "kind",
     "jahr", "monat", "mal", "année", "mois", "año", "mes")
)  # fmt: skip


class Grammar(NamedTuple):
    """The words of a language that the rules look at, all in lower case.

    `frames` are verbs that make a sentence of few words, `function` all words that name nothing
    (frames included), `begin` those that a noun follows. `pronouns` point back where nothing was
    named before them, `demonstratives` wherever they stand.
    """

    opens: re.Pattern[str]
    links: frozenset[str]
    pronouns: frozenset[str]
    demonstratives: frozenset[str]
    always: re.Pattern[str]
    expletive: re.Pattern[str]
    begin: frozenset[str]
    frames: frozenset[str]
    function: frozenset[str]


def _grammar(
    opens: str, links: str, pronouns: str, demonstratives: str, always: str, expletive: str,
    begin: str, frames: str, function: str,
) -> Grammar:  # fmt: skip
    sets = [frozenset(words.split()) for words in (links, pronouns, demonstratives, begin, frames)]
    every = frozenset(function.split()).union(*sets)
    return Grammar(
        re.compile(rf"^\W*(?:{opens})\b", re.IGNORECASE), sets[0], sets[1], sets[2],
        re.compile(always, re.IGNORECASE), re.compile(expletive, re.IGNORECASE),
        sets[3], sets[4], every,
    )  # fmt: skip


_BE = "is|are|was|were|be|been"
_ENGLISH = _grammar(
    opens="what about|how about|what of|how so|why not|since when|such as|like what|as in",
    links="and or but so then also plus ok okay well thanks please hm",
    pronouns="it its itself he him his she her hers they them their theirs themselves",
    demonstratives="this these",
    always=r"\bthe (?:former|latter|others|aforementioned)\b|"
    r"\b(?:what|who|where|how|anything|something|nothing) else\b|"
    r"\b(?:the|another|which|this|that)(?: \w+)? ones?\b(?! (?:of|that|who|which)\b)|"
    r"^\W*(?:that|those)\b(?! (?:who|that|which|with|of|in)\b)|"
    r"\b(?:about|like|of|do|does|did|than|with|for|after|before|from|by|is|was|are|were)"
    r" (?:that|those)\b(?! (?:who|that|which|with|of|in|the|a|an|i|you|we)\b)|"
    rf"(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )(?<!\bwill )\bthere\b(?! (?:{_BE})\b)",
    expletive=r"\bit (?:takes?|took)\b|\b(?:is|was|be) it \w+ (?:to|that|if|when)\b|"
    r"\bit(?:'s| is| was) \w+ (?:to|that|if|when)\b",
    begin="the a an my your our each every any all no some which what whose many much",
    frames="is are was were be do does did can could will would shall should may must has have had "
    "define explain describe list show find compare summarize mean means cost costs work works "
    "happen happens",
    function="i you we me us who whom when where why how not of in on at to for from with without "
    "by about as than if because until while during between under over into per up down out off "
    "very more most less least again further else other another same such only just still yet too "
    "tell give get go going make need want like know example examples details detail continue "
    "elaborate there here that those one ones been being am let s t ll re ve d long often far old "
    "exactly instead anything something nothing everything",
)
_GERMAN = _grammar(
    opens="was ist mit|wie sieht es (?:mit|bei|für)|wie ist es (?:mit|bei)|wieso nicht|warum nicht",
    links="und oder aber also dann auch ok danke bitte na",
    pronouns="er es ihn ihm ihnen sie dessen deren davon dafür damit darin daran darauf darüber "
    "dazu dabei dagegen dort",
    demonstratives="dieser diese dieses diesen diesem jene jener jenes",
    always=r"\b(?:was|wer|wo|noch etwas) sonst\b|\b(?:was|wer) noch\b|"
    r"\bdas\b(?= *[?!.]*$| [a-zäöüß]+ *[?!.]*$)|\bdie (?:andere|übrige|letztere)n\b",
    expletive=r"\bgibt es\b|\bes gibt\b|\bist es \w+,?\b|\bgeht es um\b|\bhandelt es sich\b",
    begin="der die das den dem des ein eine einen einem einer eines mein meine kein keine jede "
    "jeder jedes alle welche welcher welches welchen viele",
    frames="ist sind war waren wird werden hat haben hatte kann können muss müssen soll sollen "
    "darf dürfen bedeutet heißt kostet kosten erkläre beschreibe definiere nenne zeige",
    function="ich du wir ihr sich mich mir uns wer was wann wo wie warum wieso weshalb wohin woher "
    "womit wofür nicht von in im an am auf zu zum zur für aus mit ohne bei bis nach vor über unter "
    "um als wenn weil dass mehr noch sehr genau lange oft weit gibt geht nur schon man sag gib "
    "mach beispiel beispiele einzelheiten weiter viel denn so lässt",
)
_FRENCH = _grammar(
    opens="et pour|qu'en est-il|et si|pourquoi pas|comment ça",
    links="et ou mais donc alors aussi ok merci",
    pronouns="il elle ils elles lui leur leurs cela ça celui celle ceux celles y son sa ses",
    demonstratives="cet cette ces",
    always=r"\bquoi d'autre\b|"
    r"\b(?:le|la|les) (?:premier|première|dernier|dernière|autre)s?\b *\?*$",
    expletive=r"\by a-t-il\b|\bil y a\b|\bfaut-il\b|\bil faut\b|\best-il \w+ (?:de|que)\b|"
    r"\bs'agit-il\b",
    begin="le la les un une des du l au aux chaque quel quelle quels quelles mon ma mes notre nos "
    "votre vos tout toute",
    frames="est sont était étaient a ont avait peut peuvent doit doivent signifie veut coûte "
    "coûtent explique décris définis montre",
    function="je tu nous vous on se me te qui que quoi quand où comment pourquoi combien ne pas de "
    "d à en dans sur sous pour par avec sans chez entre si parce plus moins très encore exactement "
    "t n s c j m qu ce dit dis donne fait exemple exemples détails suite longtemps souvent",
)
_SPANISH = _grammar(
    opens="qué (?:hay de|tal|pasa con)|y (?:qué|si)|por qué no|como cuál(?:es)?",
    links="y o pero entonces también ok gracias",
    pronouns="él ella ellos ellas ello lo le les su sus suyo suya eso esto allí ahí",
    demonstratives="este esta estos estas ese esa esos esas aquel aquella",
    always=r"\b(?:qué|quién|dónde|algo) más\b|"
    r"\b(?:el|la|los|las) (?:primer|últim|otr)[oa]s?\b *\?*$",
    expletive=r"(?!)",
    begin="el la los las un una unos unas del al mi mis nuestro nuestra cada cualquier todo toda "
    "cuántos cuántas",
    frames="es son era eran está están fue ha han hay puede pueden debe deben significa explica "
    "describe define muestra",
    function="yo tú nosotros usted se me te nos quién qué que cuál cuáles cuándo dónde cómo por "
    "porque cuánto cuánta no de en a con sin para sobre bajo entre si más menos muy aún "
    "exactamente di da haz ejemplo ejemplos detalles tiempo",
)
_GRAMMARS = (_ENGLISH, _GERMAN, _FRENCH, _SPANISH)
_WORDS_OF_A_QUESTION = 3  # so many words of its own make one whole, whatever links it


def leans(question: str) -> bool:
    """Whether the question cannot be understood by itself."""
    if _HAN.search(question):
        return len(_HAN.findall(question)) <= _SHORT_HAN or _HAN_POINTS.search(question) is not None
    words = _WORD.findall(question)
    grammar = _grammar_of(words)
    linked = bool(words) and words[0].lower() in grammar.links
    while words and words[0].lower() in grammar.links:
        words = words[1:]
    own = [word for word in words if word.lower() not in grammar.function]
    if not own or grammar.opens.search(question):
        return True
    if linked and len(own) < _WORDS_OF_A_QUESTION:
        return True
    if len(own) == 1 and not any(word.lower() in grammar.frames for word in words):
        return True
    return _points_back(question, words, grammar)


def _grammar_of(words: Sequence[str]) -> Grammar:
    """The language that has most of the words; English in doubt."""
    lower = [word.lower() for word in words]
    return max(_GRAMMARS, key=lambda one: sum(word in one.function for word in lower))


def _points_back(question: str, words: Sequence[str], grammar: Grammar) -> bool:
    if grammar.always.search(question):
        return True
    named = False
    for place, word in enumerate(words):
        lower = word.lower()
        following = words[place + 1].lower() if place + 1 < len(words) else ""
        if lower in grammar.demonstratives and following not in _MEASURES:
            return True
        if lower in grammar.pronouns and not named and word != "Sie":
            rest = words[place + 1 :]
            expletive = grammar.expletive.search(question) is not None
            if not expletive or not _names(rest, grammar):
                return True
        named = named or _names_at(words, place, grammar)
    return False


def _names(words: Sequence[str], grammar: Grammar) -> bool:
    return any(_names_at(words, place, grammar) for place in range(len(words)))


def _names_at(words: Sequence[str], place: int, grammar: Grammar) -> bool:
    """Whether a word names something: by a capital, a number, or what stands before it."""
    word = words[place]
    if word.lower() in grammar.function or word.lower() in _MEASURES:
        return False
    if any(character.isdigit() for character in word):
        return True
    if place == 0:
        return False
    before = words[place - 1].lower()
    is_noun = before in grammar.begin or (before in grammar.frames and not word.endswith("ing"))
    return word[0].isupper() or is_noun
