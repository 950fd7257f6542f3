"""What is wrong with a question and its answer, by rules on their words and on their source."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rag_cluster.answer.evidence import claimed, stems, supports, unsaid, whole
from rag_cluster.answer.sources import Source
from rag_cluster.answer.words import words
from rag_cluster.questions.wording import points_elsewhere
from rag_cluster.shingles import units

_ASKS = re.compile(r"[?\uff1f\u061f\u055e\u1367][\W_]*$")
_MOST_WORDS = 60
_LEAST_STEMS = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """`reason` in few words, the same for all of its kind; `said` to whom wrote the question."""

    reason: str
    said: str


def problem(question: str, answer: str, source: Source) -> Problem | None:
    """The first rule that the two break; None where they may be used.

    The source supports the answer as it must support a sentence of any answer: most of its content
    words, all of its numbers and names. The question shares a content word with its source, and its
    numbers stand there too.
    """
    asked = stems(question)
    if not _ASKS.search(question) or len(words(question)) > _MOST_WORDS:
        return Problem("no question", "write one short question that ends with a question mark")
    if pointing := points_elsewhere(question):
        return Problem(
            "not standalone",
            f'the question says "{pointing}", and who asks it has not seen the passage: name what '
            "it asks about",
        )
    if len(asked) < _LEAST_STEMS:
        return Problem("not standalone", "the question does not name what it asks about")
    if not answer or _holds(question, answer):
        return Problem("gives its answer away", "the question must not contain its own answer")
    if missing := unsaid(claimed(answer, question), [source]):
        return Problem(
            "answer not in the chunk", f"the passage does not say {missing[0].said!r}: keep to it"
        )
    if not supports(source, answer, question):
        return Problem(
            "answer not in the chunk",
            "the passage does not say the answer: use its own words, numbers and names",
        )
    if missing := unsaid(claimed(question), [source]):
        return Problem(
            "question not of the chunk", f"the passage does not say {missing[0].said!r}: keep to it"
        )
    if not asked & stems(whole(source)):
        return Problem("question not of the chunk", "ask for something that the passage says")
    return None


def _holds(question: str, answer: str) -> bool:
    """Whether the answer's words stand in the question, in a row."""
    said = units(answer)
    return not said or f" {' '.join(said)} " in f" {' '.join(units(question))} "
