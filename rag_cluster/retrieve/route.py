"""Routing: which channel a query leans on, told from the query's own looks.

A rule of thumb, made of three observations: names, identifiers and quoted words must be matched as
they are written, which BM25 does and an encoder blurs; very short queries are mostly such names;
a long question in sentences shares little wording with its answer, which an encoder bridges.
"""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["quoted", "code", "short", "long", "plain"]

SHORT_WORDS = 3  # at most so many words: a name rather than a question
LONG_WORDS = 15  # at least so many words: a description rather than terms

LONGEST_WORDS = 25  # beyond so many words the weights stay
SHIFT_PER_WORD = 0.02

# How far the weight of dense moves from its plain value, for each kind of query. Those of code and
# long were measured (benchmarks.retrieval_quality); quoted and short follow from what BM25 is for.
SHIFT: dict[Kind, float] = {
    "quoted": -0.2,
    "code": -0.05,
    "short": -0.1,
    "long": 0.1,
    "plain": 0.0,
}

_QUOTED = re.compile(r"\"[^\"]{2,}\"|“[^”]{2,}”|«[^»]{2,}»|「[^」]{1,}」")
_CODE = re.compile(
    r"""
    \b\w+_\w+\b                          # snake_case
    | \b[a-z]+[0-9]*[A-Z]\w*\b           # camelCase
    | \b[A-Z][a-z0-9]+[A-Z]\w*\b         # PascalCase
    | \w+(?:::|->)\w+                    # path::item, object->member
    | \b\w+\([^)\s]*\)                   # call()
    | \b[A-Za-z_]\w*\.[A-Za-z_]\w+\b     # module.attribute, file.ext
    | `[^`]+`
    | (?<!\w)--?[a-z][\w-]+              # --option
    | \b0x[0-9a-fA-F]+\b
    | \b(?=[A-Z0-9-]*[A-Z])(?=[A-Z0-9-]*[0-9])[A-Z0-9]+(?:-[A-Z0-9]+)+\b   # ISO-9001
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"\w+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def kind_of_query(query: str) -> Kind:
    """What the query looks like; the first that fits of quoted, code, short, long, else plain."""
    if _QUOTED.search(query):
        return "quoted"
    if _CODE.search(query):
        return "code"
    words = _count_words(query)
    if words <= SHORT_WORDS:
        return "short"
    return "long" if words >= LONG_WORDS else "plain"


def route(query: str, alpha: float = 0.6) -> float:
    """The weight of dense in convex fusion: `alpha` on a plain query, moved by the query's kind.

    A long query leans on dense the more, the longer it is (up to LONGEST_WORDS): words that only
    frame the question ("answer as an analyst would, in millions") are terms like any other to BM25.
    """
    kind = kind_of_query(query)
    shift = SHIFT[kind]
    if kind == "long":
        beyond = min(_count_words(query), LONGEST_WORDS) - LONG_WORDS
        shift += beyond * SHIFT_PER_WORD
    return min(1.0, max(0.0, alpha + shift))


def _count_words(query: str) -> int:
    """Words; in scripts written without spaces, two characters count as one."""
    unspaced = len(_UNSPACED.findall(query))
    return len(_WORD.findall(_UNSPACED.sub(" ", query))) + (unspaced + 1) // 2
