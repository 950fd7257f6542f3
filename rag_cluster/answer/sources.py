"""What a generator reads: a source with its marker, made of one or more passages of a document."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from rag_cluster.schema import Passage

# The answer where the sources hold none.
NOTHING_FOUND = "Nothing in the collection answers this question."

# Chunks are trimmed of the white space between them; a wider gap is text that was not retrieved.
MAX_GAP = 2

_BRACKETED_NUMBER = re.compile(r"\[(\d{1,4}(?:\s*[,;\u2013-]\s*\d{1,4})*)\]")


@dataclass(frozen=True, slots=True)
class Source:
    """One marked piece of text for the generator.

    `text` is the document's text from `start` to `end`; `parts` are the passages it was joined
    from, in document order. `strength` is the best rank among them, from 0.
    """

    marker: int
    strength: int
    doc_id: str
    uri: str
    title: str
    section: str
    pages: tuple[int, int] | None
    start: int
    end: int
    header: str
    text: str
    parts: tuple[Passage, ...]

    @property
    def label(self) -> str:
        """The source in one line: title, section, the file's name and pages."""
        name = unquote(urlsplit(self.uri).path.rstrip("/").rpartition("/")[2]) or self.uri
        where = [part for part in (self.title, self.section) if part]
        if len(where) == 2 and where[1].startswith(where[0]):
            del where[0]
        pages = ""
        if self.pages is not None:
            first, last = self.pages
            pages = f", page {first}" if first == last else f", pages {first}-{last}"
        return " ".join(f"{' > '.join(where)} ({name}{pages})".split())

    def render(self) -> str:
        """Marker and label on a line, then header and text: what counts against the budget."""
        body = "\n".join(part for part in (self.header, self.text) if part)
        return f"[{self.marker}] {self.label}\n{body}"

    def part_at(self, start: int, end: int) -> Passage:
        """The first-ranked passage that holds `text[start:end]`, else that which holds most."""
        first, last = self.start + start, self.start + end

        def fit(part: Passage) -> tuple[int, int]:
            return (-max(0, min(part.end, last) - max(part.start, first)), part.rank)

        return min(self.parts, key=fit)


def touches(left: Passage | Source, right: Passage | Source) -> bool:
    """Whether the two are one stretch of a document: overlapping, or parted by white space.

    Rewritten text, whose length is not that of its span, touches nothing. A repeated table header
    is accepted on the right only where the left already shows it.
    """
    if left.start > right.start:
        left, right = right, left
    if left.doc_id != right.doc_id or right.start > left.end + MAX_GAP:
        return False
    if any(len(piece.text) != piece.end - piece.start for piece in (left, right)):
        return False
    return not right.header or right.header == left.header or right.header.strip() in left.text


def join(passages: Sequence[tuple[int, Passage]]) -> Source:
    """One source of passages, each with its strength, that touch in document order; marker 1."""
    in_order = sorted(passages, key=lambda item: (item[1].start, item[0]))
    strength, best = min(passages, key=lambda item: item[0])
    first = in_order[0][1]
    text, end = first.text, first.end
    for _, passage in in_order[1:]:
        if passage.end > end:
            gap = max(0, passage.start - end)
            text += ("", " ", "\n\n")[gap] + passage.text[max(0, end - passage.start) :]
            end = passage.end
    numbers = [page for _, passage in in_order if passage.pages for page in passage.pages]
    return Source(
        marker=1,
        strength=strength,
        doc_id=best.doc_id,
        uri=best.uri,
        title=best.title,
        section=best.section,
        pages=(min(numbers), max(numbers)) if numbers else None,
        start=first.start,
        end=end,
        header=first.header,
        text=text,
        parts=tuple(passage for _, passage in in_order),
    )


def without_markers(text: str) -> str:
    """The text with its own "[12]" as "(12)": a document's references are no markers of ours."""
    return _BRACKETED_NUMBER.sub(r"(\1)", text)
