"""Citation coverage: which share of the answer's sentences a passage supports.

A passage supports a sentence where it has most of its words, all of its numbers and names, and does
not deny it (`answer.evidence`). It is a rule of words: a paraphrase in other words is reported
although it is true, and a sentence of the passage's words is passed whatever it makes of them.
"""

from __future__ import annotations

import re

from rag_cluster.answer.citations import CheckedAnswer
from rag_cluster.answer.guardrails.verdict import (
    Finding,
    Verdict,
    flagged,
    not_applicable,
    passed,
)

# "The kit contains:" announces; "The passages do not say what it costs" states nothing of them.
_ANNOUNCES = re.compile(r"[:\uff1a]\W*$")
_OWN_LIMITS = re.compile(
    r"\b(?:passages?|sources?|documents?|texts?|context|excerpts?)\b[^.]{0,40}"
    r"\b(?:do(?:es)?\s+not|don't|doesn't|did\s+not|is\s+not|are\s+not|no)\b[^.]{0,30}"
    r"\b(?:say|state|mention|contain|give|specif|provide|includ|tell|describe|cover|information)"
    r"|\bno\s+(?:information|passage|source)\b[^.]{0,40}\b(?:on|about|says?|given|found)\b",
    re.IGNORECASE,
)


def check_coverage(checked: CheckedAnswer, min_coverage: float) -> Verdict:
    """Flagged where fewer of the sentences than `min_coverage`, in [0, 1], are supported.

    Code, a sentence that announces what follows, and one that says what the passages do not tell
    are not counted.
    """
    claims = [
        claim
        for claim in checked.claims
        if claim.kind != "block"
        and not (_ANNOUNCES.search(claim.text) or _OWN_LIMITS.search(claim.text))
    ]
    if not claims:
        return not_applicable("coverage", "the answer states nothing")
    missing = tuple(
        Finding(
            within="answer",
            text=claim.text,
            note=f"no passage supports: {claim.text}",
            start=claim.start,
            end=claim.end,
        )
        for claim in claims
        if not claim.supported
    )
    share = 1 - len(missing) / len(claims)
    reason = f"passages support {len(claims) - len(missing)} of {len(claims)} sentences"
    if share < min_coverage:
        return flagged(
            "coverage", round(share, 4), f"{reason}, less than {min_coverage:g}", missing
        )
    return passed("coverage", round(share, 4), reason, missing)
