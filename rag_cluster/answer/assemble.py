"""Assembly: which passages the generator reads, in what order, within how many tokens.

Passages are taken in rank order while they fit. The order in which they are then shown puts the
best first and last and the weakest in the middle, since language models overlook what stands
there (Liu et al., "Lost in the Middle: How Language Models Use Long Contexts", 2023).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rag_cluster.answer.sentences import Unit, split_units
from rag_cluster.answer.sources import Source, join, touches
from rag_cluster.answer.words import numbers
from rag_cluster.schema import Passage
from rag_cluster.shingles import jaccard, shingles

CountTokens = Callable[[list[str]], list[int]]

_SHINGLE = 3
_SHORT_WORDS = 8


@dataclass(frozen=True, slots=True)
class Assembly:
    """The sources in the order in which they are shown, and what was left out.

    Every passage given is in exactly one place: the number given is `used` + `duplicates` +
    `over_budget` + `over_count`. `tokens` is the sum over the rendered sources. `sentences_cut`
    counts sentences and table rows that were cut from passages in use.
    """

    sources: tuple[Source, ...]
    tokens: int
    duplicates: int
    over_budget: int
    over_count: int
    sentences_cut: int

    @property
    def used(self) -> int:
        """Passages that are in the sources, whole or in part."""
        return sum(len(source.parts) for source in self.sources)

    def by_strength(self) -> list[Source]:
        """The sources, best first."""
        return sorted(self.sources, key=lambda source: source.strength)


def assemble(
    passages: Sequence[Passage],
    *,
    budget_tokens: int,
    count_tokens: CountTokens,
    max_passages: int = 8,
    duplicate_threshold: float = 0.9,
) -> Assembly:
    """Choose, join, cut and order passages (given best first) under a budget of tokens.

    A passage that repeats a better one is dropped (see `is_duplicate`). Passages of one document
    that overlap or adjoin become one source. At most `max_passages` sources are made; their markers
    run from 1 in the order shown. A passage that does not fit whole is cut at a sentence or table
    row, keeping what is nearest to the text it joins, else its beginning.
    """
    packer = _Packer(budget_tokens, max_passages, count_tokens)
    kept: list[_Likeness] = []
    duplicates = 0
    for strength, passage in enumerate(passages):
        likeness = _Likeness.of(passage)
        if any(likeness.repeats(better, duplicate_threshold) for better in kept):
            duplicates += 1
            continue
        kept.append(likeness)
        packer.add(strength, passage)
    chosen = sorted(packer.sources(), key=lambda source: source.strength)
    sources = tuple(
        dataclasses.replace(source, marker=number)
        for number, source in enumerate(weakest_in_the_middle(chosen), start=1)
    )
    return Assembly(
        sources=sources,
        tokens=sum(count_tokens([source.render() for source in sources])) if sources else 0,
        duplicates=duplicates,
        over_budget=packer.over_budget,
        over_count=packer.over_count,
        sentences_cut=packer.sentences_cut,
    )


def weakest_in_the_middle(sources: Sequence[Source]) -> list[Source]:
    """Best-first sources 1 2 3 4 5 in the order 1 3 5 4 2."""
    return [*sources[::2], *reversed(sources[1::2])]


def is_duplicate(passage: Passage, better: Passage, threshold: float) -> bool:
    """Whether the passage says what a better one says.

    That is: it is the same chunk, or the Jaccard similarity of their word 3-grams (single words,
    where either has fewer than 8; a CJK character is a word) reaches the threshold and both hold
    the same numbers, so that the reports of two years stay two. Overlapping spans of one document
    are no duplicates: they are joined.
    """
    return _Likeness.of(passage).repeats(_Likeness.of(better), threshold)


@dataclass(frozen=True, slots=True)
class _Likeness:
    """What is compared of a passage, computed once."""

    passage: Passage
    singles: frozenset[tuple[str, ...]]
    triples: frozenset[tuple[str, ...]]
    numbers: set[str]

    @classmethod
    def of(cls, passage: Passage) -> _Likeness:
        text = f"{passage.header} {passage.text}"
        return cls(passage, shingles(text, 1), shingles(text, _SHINGLE), numbers(text))

    def repeats(self, better: _Likeness, threshold: float) -> bool:
        one, other = self.passage, better.passage
        if one.chunk_id == other.chunk_id:
            return True
        if one.doc_id == other.doc_id and one.start < other.end and other.start < one.end:
            return False
        if self.numbers != better.numbers:
            return False
        if min(len(self.singles), len(better.singles)) < _SHORT_WORDS:
            return jaccard(self.singles, better.singles) >= threshold
        return jaccard(self.triples, better.triples) >= threshold


class _Packer:
    """Sources under construction, each a list of (strength, passage), and their tokens."""

    def __init__(self, budget: int, most: int, count_tokens: CountTokens) -> None:
        self._budget = budget
        self._most = most
        self._count_tokens = count_tokens
        self._groups: list[tuple[int, Source, list[tuple[int, Passage]]]] = []
        self.over_budget = 0
        self.over_count = 0
        self.sentences_cut = 0

    def sources(self) -> list[Source]:
        return [source for _, source, _ in self._groups]

    def add(self, strength: int, passage: Passage) -> None:
        """Take the passage whole, or what fits of it, or count it as left out."""
        near = self._touching(passage)
        if not near and len(self._groups) >= self._most:
            self.over_count += 1
        elif not self._take(strength, passage):
            self._take_part(strength, passage, near)

    def _touching(self, passage: Passage) -> list[int]:
        return [i for i, (_, source, _) in enumerate(self._groups) if touches(source, passage)]

    def _take(self, strength: int, passage: Passage) -> bool:
        near = self._touching(passage)
        if not near and len(self._groups) >= self._most:
            return False
        members = [member for i in near for member in self._groups[i][2]]
        members.append((strength, passage))
        source = join(members)
        # No marker has more digits than the widest one, so the tokens hold whatever it becomes.
        widest = dataclasses.replace(source, marker=self._most)
        tokens = self._count_tokens([widest.render()])[0]
        rest = [group for i, group in enumerate(self._groups) if i not in near]
        if tokens + sum(count for count, _, _ in rest) > self._budget:
            return False
        self._groups = [*rest, (tokens, source, members)]
        return True

    def _take_part(self, strength: int, passage: Passage, near: list[int]) -> None:
        anchor = min((self._groups[i][1] for i in near), key=lambda s: s.strength, default=None)
        units = split_units(passage.text)
        order = _nearest_first(units, passage, anchor)
        low, high = 0, len(units) - 1  # `low` units fit, one more than `high` do not
        state = self._groups
        fitting = state
        while low < high:
            middle = (low + high + 1) // 2
            self._groups = state
            if self._take(strength, _keep(passage, units, order[:middle])):
                low, fitting = middle, self._groups
            else:
                high = middle - 1
        self._groups = fitting
        if low:
            self.sentences_cut += len(units) - low
        else:
            self.over_budget += 1


def _nearest_first(units: list[Unit], passage: Passage, anchor: Source | None) -> list[int]:
    """The units' numbers, the nearest to the anchor's span first; each prefix is a window."""
    if anchor is None:
        return list(range(len(units)))
    first, last = anchor.start - passage.start, anchor.end - passage.start

    def distance(number: int) -> tuple[int, int]:
        unit = units[number]
        return (max(0, unit.start - last, first - unit.end), number)

    return sorted(range(len(units)), key=distance)


def _keep(passage: Passage, units: list[Unit], kept: list[int]) -> Passage:
    """The passage from the first to the last of these units."""
    start, end = units[min(kept)].start, units[max(kept)].end
    text = passage.text[start:end]
    if len(passage.text) != passage.end - passage.start:  # rewritten text keeps its source's span
        return dataclasses.replace(passage, text=text)
    return dataclasses.replace(
        passage, start=passage.start + start, end=passage.start + end, text=text
    )
