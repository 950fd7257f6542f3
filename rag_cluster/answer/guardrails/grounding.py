"""Number grounding: every amount, percentage, year and ratio of the answer stands in a passage.

Numbers are compared as `answer.quantities` reads them, so that "$1.2 billion" is 1,200 million
dollars, and 1,234 million rounded. A number that was computed (a sum, a difference) is reported: no
passage says it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rag_cluster.answer.evidence import claimed, unsaid
from rag_cluster.answer.guardrails.verdict import (
    Finding,
    Verdict,
    flagged,
    not_applicable,
    passed,
)
from rag_cluster.answer.quantities import Quantity, read, says
from rag_cluster.answer.sources import Source


def check_grounding(answer: str, question: str, sources: Sequence[Source]) -> Verdict:
    """Flagged where a number of the answer is in none of the sources; the value is the share."""
    numbers = claimed(answer, question)
    if not numbers:
        return not_applicable("grounding", "the answer has no numbers")
    missing = unsaid(numbers, sources)
    share = round(1 - len(missing) / len(numbers), 4)
    if not missing:
        return passed("grounding", share, f"passages say all {len(numbers)} numbers")
    asked = read(question)
    said = ", ".join(dict.fromkeys(number.said for number in missing))
    return flagged(
        "grounding",
        share,
        f"passages say {len(numbers) - len(missing)} of {len(numbers)} numbers, but not: {said}",
        tuple(_finding(number, asked) for number in missing),
    )


def _finding(number: Quantity, asked: Sequence[Quantity]) -> Finding:
    echo = " (the question does)" if any(says(there, number) for there in asked) else ""
    return Finding(
        within="answer",
        text=number.said,
        note=f"no passage says: {number.said}{echo}",
        start=number.start,
        end=number.end,
    )
