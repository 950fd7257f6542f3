"""Signs of prompt injection: text in a source that reads like an instruction to a model.

A list of patterns. It reports, it does not protect (that is the prompt's part, `answer.prompt`); an
attack in other words passes. What stands in quotation marks or as code in a sentence that is about
such attacks is a mention: a manual on prompts is not flagged, though its examples are findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag_cluster.answer.guardrails.verdict import (
    Finding,
    Verdict,
    flagged,
    not_applicable,
    passed,
)
from rag_cluster.answer.sources import Source
from rag_cluster.schema import Passage

_INSTRUCTION = re.compile(
    r"""
    \b(?:ignore|disregard|forget|override)\b[^.:;\n]{0,40}\b
        (?:instructions?|prompts?|rules|directions|above|previous|prior)\b
    | \b(?:you\ are|act\ as|pretend\ to\ be)\ (?:now\ )?(?:an?\ )?(?:[\w-]+\ ){0,2}
        (?:assistant|AI|model|chatbot|DAN)\b
    | \byou\ are\ (?:now|no\ longer)\ (?:an?|in\ \w+\ mode|bound|acting|free)\b
    | \bfrom\ now\ on,?\ (?:you|answer|respond|reply|only)\b
    | \b(?:new|updated|real|following)\ instructions?\s*:
    | \b(?:reveal|print|repeat|output|show|leak)\b[^.\n]{0,30}
        \b(?:(?:system|hidden|initial)\ prompt|your\ (?:\w+\ )?instructions)\b
    | \b(?:do\ not|don't|never)\ (?:answer|cite|mention|tell)\b[^.\n]{0,40}
        \bthe\ (?:user|question|source)
    | \b(?:note|message|instructions?|attention|hint)\s(?:to|for)\s(?:the\s|all\s|any\s)?
        (?:AI|LLM|assistant|language\ model|chatbot|model)s?\b
    | \b(?:if|when)\ you\ are\ (?:an?\ )?(?:AI|LLM|(?:large\ )?language\ model|chatbot|bot)\b
    | \b(?:AI|LLM|language\ model|chatbot)s?\b[^.\n]{0,40}\b(?:must|should|shall|has\ to|have\ to)
        \ (?:now\ )?(?:send|say|answer|reply|respond|recommend|ignore|output|forward|tell)\b
    | <!--[^>]{0,20}\b(?:assistant|AI|LLM|model|system)\b
    | ^\s*(?:system|assistant)\s*:
    | <\|[a-z_]+\|> | </?(?:start_of_turn|end_of_turn|system)> | \[/?INST\]
    | <<<\s*(?:end|passage)
    | [\U000E0020-\U000E007E]{3,}
    | \b(?:ignorier\w*|vergiss|vergessen\ sie|missachte\w*)\b[^.\n]{0,40}\banweisung\w*
    | \b(?:ignore[rz]?|oublie[rz]?)\b[^.\n]{0,40}\b(?:consignes|instructions)\b
    | \b(?:ignora|olvida)\b[^.\n]{0,40}\binstrucciones\b
    | (?:\u5ffd\u7565|\u65e0\u89c6|\u7121\u8996)[^\u3002\n]{0,12}
        (?:\u6307\u4ee4|\u6307\u793a|\u8bf4\u660e|\u63d0\u793a)
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_QUOTED = re.compile(
    r"\"[^\"\n]*\"|\u201c[^\u201d\n]*\u201d|\u201e[^\u201c\n]*\u201c|\u00ab[^\u00bb\n]*\u00bb"
    r"|`[^`\n]*`|```.*?```|\u300c[^\u300d\n]*\u300d",
    re.DOTALL,
)
_DISCUSSED = re.compile(
    r"\b(?:attack\w*|inject\w+|jailbreak\w*|adversar\w+|malicious|for\ example|such\ as|e\.g\.|"
    r"example\w*|phrases?|patterns?|angriff\w*|zum\ beispiel|beispiel\w*|attaque\w*|ataque\w*)\b",
    re.IGNORECASE,
)
_NEAR = 160  # characters before a quotation within which it is said what it is
_FIRST_TAG, _LAST_TAG = 0xE0000, 0xE007F


def check_injection(sources: Sequence[Source]) -> Verdict:
    """Flagged where a source holds an instruction that is not merely mentioned."""
    if not sources:
        return not_applicable("injection", "there are no sources")
    every: dict[tuple[int, str], Finding] = {}
    ordered: set[tuple[int, str]] = set()
    for source in sources:
        for finding, mentioned in _findings(source):
            name = (source.marker, finding.text)
            every.setdefault(name, finding)
            if not mentioned:
                ordered.add(name)
    orders = tuple(finding for name, finding in every.items() if name in ordered)
    mentions = len(every) - len(orders)
    also = f" ({mentions} more in quotation marks, where such texts are discussed)"
    reason = f"sources hold {len(orders)} texts that read like instructions to a model"
    reason += also if mentions else ""
    if orders:
        return flagged("injection", len(orders), reason, orders)
    return passed("injection", 0, reason, tuple(every.values()))


def instructions(text: str) -> list[str]:
    """The pieces of a text that read like instructions to a model, as they stand there.

    Those that are only mentioned are left out.
    """
    return [_shown(text[start:end]) for start, end, mentioned in _signs(text) if not mentioned]


def _findings(source: Source) -> Iterator[tuple[Finding, bool]]:
    """The signs in a source's title, section, header and text, and whether each is a mention."""
    above = f"{source.title}\n{source.section}\n{source.header}"
    places: list[tuple[str, int | None, Passage]] = [(above, None, source.parts[0])]
    places += [(part.text, part.start - source.start, part) for part in source.parts]
    for text, offset, part in places:
        for start, end, mentioned in _signs(text):
            sign = _shown(text[start:end])
            note = f"source [{source.marker}] holds an instruction: {sign}"
            yield (
                Finding(
                    within="source",
                    text=sign,
                    note=note,
                    start=None if offset is None else offset + start,
                    end=None if offset is None else offset + end,
                    marker=source.marker,
                    chunk_id=part.chunk_id,
                ),
                mentioned,
            )


def _signs(text: str) -> Iterator[tuple[int, int, bool]]:
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    for match in _INSTRUCTION.finditer(text):
        start = match.start() + len(match.group()) - len(match.group().lstrip())
        end = match.start() + len(match.group().rstrip())
        inside = next(((a, b) for a, b in quoted if a <= start < b), None)
        about = inside and _DISCUSSED.search(text, max(0, inside[0] - _NEAR), inside[0])
        yield start, end, about is not None


def _shown(text: str) -> str:
    """The text with invisible tag characters as the letters that they stand for."""
    return "".join(
        chr(ord(character) - _FIRST_TAG) if _FIRST_TAG < ord(character) <= _LAST_TAG else character
        for character in text
    )
