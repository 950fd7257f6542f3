"""Questions that were asked already, in the same or nearly the same words.

Two are one where their content words, by stems, overlap by 85 % (Jaccard) and they hold the same
numbers, codes and capitalised words: "What was the revenue of 3M in 2021?" is another question than
"... in 2022?" or "... of Amcor in 2021?". Pairs are found by prefix filtering (Bayardo, Ma,
Srikant, "Scaling up all pairs similarity search", 2007): two sets that are so alike have a member
in common among the first few of each, in any fixed order.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict

from rag_cluster.answer.evidence import stems
from rag_cluster.shingles import units

THRESHOLD = 0.85
_NAME = re.compile(r"(?<=\s)[^\W\d_a-z]\w*")


class Asked:
    """The questions so far."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, frozenset[str]], list[frozenset[str]]] = defaultdict(list)
        self._texts: set[str] = set()

    def add(self, question: str) -> bool:
        """Keeps a question; False where it, or nearly the same, is among those kept."""
        found = units(question)
        text = " ".join(found)
        if text in self._texts:
            return False
        codes = frozenset(unit for unit in found if any(c.isdigit() for c in unit))
        codes |= {name for name in _NAME.findall(question) if name[0].isupper()}
        held = stems(question)
        # Long words first: they are rare, so few others are compared.
        ordered = sorted(held, key=lambda stem: (-len(stem), stem))
        first = ordered[: len(held) - math.ceil(THRESHOLD * len(held)) + 1]
        for stem in first:
            for other in self._known[stem, codes]:
                if len(held & other) >= THRESHOLD * len(held | other):
                    return False
        for stem in first:
            self._known[stem, codes].append(held)
        self._texts.add(text)
        return True
