"""Citations that were checked against the passages given to the generator.

Every sentence of an answer is looked at. A marker that no source has is removed and reported. A
sentence that no marker supports gets the marker of the source that does; where none does, the
sentence stays (the reader decides) and is reported as unsupported. Each citation quotes the
sentence or table row of its passage that says most of what the answer's sentence says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from rag_cluster.answer.evidence import best_quote, support, supports
from rag_cluster.answer.sentences import Unit, UnitKind, split_units
from rag_cluster.answer.sources import NOTHING_FOUND, Source
from rag_cluster.answer.tables import read_row

PageOf = Callable[[str, int], int | None]

_NUMBERS = r"\d{1,4}(?:\s*[,;]\s*\d{1,4})*"
_MARKERS = re.compile(rf"[ \t]*(?:\[\s*({_NUMBERS})\s*\](?!\()|\u3010\s*({_NUMBERS})\s*\u3011)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Citation:
    """`quote` is verbatim text of the chunk's source; `page` is where it stands, from 1."""

    marker: int
    chunk_id: str
    doc_id: str
    uri: str
    page: int | None
    quote: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, table row or block of code, at `text[start:end]` of the answer as it is shown."""

    start: int
    end: int
    text: str
    supported: bool
    kind: UnitKind = "sentence"


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """The answer as it is shown. Markers stand as [1] or [1][2] at the ends of sentences."""

    text: str
    citations: tuple[Citation, ...]
    removed_markers: tuple[int, ...]
    claims: tuple[Claim, ...]

    @property
    def unsupported_sentences(self) -> tuple[str, ...]:
        """The sentences that no source supports."""
        return tuple(claim.text for claim in self.claims if not claim.supported)


@dataclass(frozen=True, slots=True)
class _Sentence:
    start: int
    end: int
    text: str
    markers: tuple[int, ...]
    kind: UnitKind


def check_citations(
    answer: str, sources: Sequence[Source], page_of: PageOf | None = None, question: str = ""
) -> CheckedAnswer:
    """Check, complete and number the citations of an answer.

    Markers are [1], [1, 2], [1][2] and their full-width form. `page_of(doc_id, offset)` gives the
    page of an offset of the document's text; without it a quote is on the first page of its chunk.
    `question` may set the scale of the answer's numbers ("in USD millions").
    The sentence NOTHING_FOUND carries no citations.
    """
    by_marker = {source.marker: source for source in sources}
    clean, found = _take_out_markers(answer)
    if _is_refusal(clean):
        unknown = [marker for marker, _ in found if marker not in by_marker]
        return CheckedAnswer(NOTHING_FOUND, (), _once(unknown), ())
    text, position = "", 0
    citations: list[Citation] = []
    claims: list[Claim] = []
    for sentence in _assign(clean, found):
        kept = [marker for marker in sentence.markers if marker in by_marker]
        supported = any(supports(by_marker[marker], sentence.text, question) for marker in kept)
        if not supported:
            best = _best_source(sentence.text, sources, question)
            supported = best is not None
            if best is not None and best.marker not in kept:
                kept.append(best.marker)
        text = (text + clean[position : sentence.end]).lstrip()
        start = len(text) - len(sentence.text)
        claims.append(Claim(start, len(text), sentence.text, supported, sentence.kind))
        text += (" " if kept else "") + "".join(f"[{marker}]" for marker in kept)
        position = sentence.end
        citations.extend(_cite(by_marker[marker], sentence.text, page_of) for marker in kept)
    removed = [marker for marker, _ in found if marker not in by_marker]
    return CheckedAnswer(
        text=(text + clean[position:]).strip(),
        citations=tuple(dict.fromkeys(citations)),
        removed_markers=_once(removed),
        claims=tuple(claims),
    )


def _best_source(sentence: str, sources: Sequence[Source], question: str) -> Source | None:
    enough = [source for source in sources if supports(source, sentence, question)]
    return max(enough, key=lambda s: (support(s, sentence, question), -s.strength), default=None)


def _cite(source: Source, sentence: str, page_of: PageOf | None) -> Citation:
    start, end = best_quote(source, sentence)
    part = source.part_at(start, end)
    page = page_of(source.doc_id, source.start + start) if page_of else None
    if page is None and part.pages:
        page = part.pages[0]
    return Citation(
        source.marker, part.chunk_id, source.doc_id, source.uri, page, source.text[start:end]
    )


def _take_out_markers(answer: str) -> tuple[str, list[tuple[int, int]]]:
    """The answer without markers, and each marker with the place where it stood in that.

    "[1]" within code is an index.
    """
    code = [match.span() for match in _CODE.finditer(answer)]
    clean, position = "", 0
    found: list[tuple[int, int]] = []
    for match in _MARKERS.finditer(answer):
        if any(start <= match.start() < end for start, end in code):
            continue
        clean += answer[position : match.start()]
        position = match.end()
        listed = match.group(1) or match.group(2)
        found.extend((int(number), len(clean)) for number in re.findall(r"\d+", listed))
    return clean + answer[position:], found


def _cut_at_lines(clean: str, units: Sequence[Unit], places: Container[int]) -> list[Unit]:
    """The units, cut where a line ends with a marker: a table row, say, that has no full stop."""
    cut: list[Unit] = []
    for unit in units:
        start = unit.start
        for line in re.finditer(r"\n\s*", clean[unit.start : unit.end]):
            end = unit.start + line.start()
            if unit.kind == "sentence" and end in places:
                cut.append(Unit(start, end, unit.kind))
                start = unit.start + line.end()
        cut.append(Unit(start, unit.end, unit.kind))
    return cut


def _assign(clean: str, found: Sequence[tuple[int, int]]) -> list[_Sentence]:
    """The sentences with the markers in them or after them; a marker in front goes to the first."""
    every = _cut_at_lines(clean, split_units(clean), {place for _, place in found})
    units = [unit for number, unit in enumerate(every) if _states(clean, every, number)]
    owned: list[list[int]] = [[] for _ in units]
    for marker, place in found:
        before = [i for i, unit in enumerate(units) if unit.start < place]
        if units:
            owned[before[-1] if before else 0].append(marker)
    return [
        _Sentence(unit.start, unit.end, clean[unit.start : unit.end], _once(markers), unit.kind)
        for unit, markers in zip(units, owned, strict=True)
    ]


def _states(clean: str, units: Sequence[Unit], number: int) -> bool:
    """Whether a unit says something: headings and the headers of tables do not.

    A short line may be an answer without a stop: only what is marked as a heading is one.
    """
    unit = units[number]
    match unit.kind:
        case "rule":
            return False
        case "heading":
            return clean[unit.start] != "#"
        case "row":
            return read_row(clean, units, number, "") != ""
        case _:
            return True


def _is_refusal(clean: str) -> bool:
    return clean.strip(" .\n\t\"'").casefold() == NOTHING_FOUND.strip(".").casefold()


def _once(markers: Sequence[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(markers))
