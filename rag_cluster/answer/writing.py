"""The second half of the query path: grounds in, a checked answer out, whole or as it comes.

grounds -> generate -> checked citations -> guardrails -> answer

It needs neither the collection nor its index, so a service may run it elsewhere than the search.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any, Protocol

from rag_cluster.answer.assemble import Assembly
from rag_cluster.answer.citations import CheckedAnswer, Citation, check_citations
from rag_cluster.answer.found import SearchResult, Timings, hits_to_json, rounded, timed
from rag_cluster.answer.generate import Draft
from rag_cluster.answer.guardrails import Retrieved, Verdict, guard
from rag_cluster.answer.sources import Source
from rag_cluster.config import Guardrails
from rag_cluster.retrieve.transform import Transformed
from rag_cluster.schema import Passage

# [start, end) of the document's text, and the page that it is on.
PageSpan = tuple[int, int, int]


@dataclass(frozen=True)
class Grounds:
    """All that an answer is written from and checked against.

    `pages` are the pages that the sources stand on, by doc_id; `dates` the documents' declared
    dates; `language` that of the index.
    """

    found: SearchResult
    assembly: Assembly
    pages: Mapping[str, Sequence[PageSpan]]
    dates: Mapping[str, date]
    language: str

    def page_of(self, doc_id: str, offset: int) -> int | None:
        """The page of an offset of the document's text; the last one for what lies beyond."""
        pages = self.pages.get(doc_id, ())
        for start, end, number in pages:
            if start <= offset < end:
                return number
        return pages[-1][2] if pages else None


@dataclass(frozen=True)
class Answer:
    """An answer whose citations were checked, with the hits that it was made from.

    `guardrails` are the verdicts of the rules that are on, and `notes` say in words what these
    found, what was left out and what fell back. Where a rule blocks the answer, `answer` says so.
    Token counts are the engine's own: 0 for the extractive generator, and where it gives none.
    """

    question: str
    answer: str
    citations: list[Citation]
    hits: list[Passage]
    timings_ms: Timings
    notes: list[str] = field(default_factory=list)
    guardrails: list[Verdict] = field(default_factory=list)
    transformed: Transformed | None = None
    found: SearchResult | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def to_json(self) -> dict[str, Any]:
        """The object that `ask --json` prints."""
        return {
            "question": self.question,
            "answer": self.answer,
            "citations": [asdict(citation) for citation in self.citations],
            "hits": hits_to_json(self.hits, self.found.by_channel if self.found else ()),
            "timings_ms": rounded(self.timings_ms),
            "transform": None if self.transformed is None else self.transformed.to_json(),
            "notes": self.notes,
            "guardrails": {verdict.rule: verdict.to_json() for verdict in self.guardrails},
        }


class Writer(Protocol):
    """What writes a draft: a generator, or a handle to one that runs elsewhere."""

    async def generate(self, question: str, sources: Sequence[Source]) -> Draft:
        """The whole draft. Raises ModelError or ServiceError."""

    def stream(self, question: str, sources: Sequence[Source]) -> AsyncIterator[str]:
        """The draft in pieces. Raises as `generate` does."""


async def write(grounds: Grounds, writer: Writer, guardrails: Guardrails) -> Answer:
    """The answer. Raises ModelError or ServiceError of the writer."""
    timings: Timings = {}
    with timed(timings, "generate"):
        draft = await writer.generate(grounds.found.query, grounds.assembly.sources)
    return finish(grounds, draft, guardrails, timings)


async def write_in_pieces(
    grounds: Grounds, writer: Writer, guardrails: Guardrails
) -> AsyncGenerator[str | Answer]:
    """Pieces of the draft as they come, and last the answer, which is what counts.

    Where a rule may withhold the answer, nothing of it is shown before it was checked. Raises
    ModelError or ServiceError of the writer.
    """
    timings: Timings = {}
    start = time.perf_counter()
    text = ""
    async for piece in writer.stream(grounds.found.query, grounds.assembly.sources):
        if not text:
            timings["first_token"] = (time.perf_counter() - start) * 1000
        text += piece
        if not guardrails.blocks:
            yield piece
    timings["generate"] = (time.perf_counter() - start) * 1000
    answer = finish(grounds, Draft(text.strip()), guardrails, timings)
    if guardrails.blocks:
        yield answer.answer
    yield answer


def finish(grounds: Grounds, draft: Draft, guardrails: Guardrails, timings: Timings) -> Answer:
    """The answer of a draft: its citations checked, and all rules applied."""
    found, sources = grounds.found, grounds.assembly.sources
    with timed(timings, "check"):
        checked = check_citations(draft.text, sources, grounds.page_of, found.query)
    with timed(timings, "guard"):
        retrieved = Retrieved(found.hits, found.standing, grounds.dates, grounds.language)
        guarded = guard(guardrails, found.query, checked, sources, retrieved)
    total = found.timings_ms["total"] + sum(
        value for name, value in timings.items() if name != "first_token"
    )
    return Answer(
        question=found.query,
        answer=guarded.text,
        citations=list(guarded.citations),
        hits=found.hits,
        timings_ms={**found.timings_ms, **timings, "total": total},
        notes=[*found.notes, *notes_of(grounds.assembly, checked), *guarded.notes],
        guardrails=list(guarded.verdicts),
        transformed=found.transformed,
        found=found,
        prompt_tokens=draft.prompt_tokens,
        completion_tokens=draft.completion_tokens,
    )


def notes_of(assembly: Assembly, checked: CheckedAnswer) -> list[str]:
    """What was left out or put right on the way to an answer, in words."""
    notes = []
    if assembly.over_budget:
        notes.append(f"{assembly.over_budget} passages were beyond the token budget")
    if assembly.sentences_cut:
        notes.append(f"{assembly.sentences_cut} sentences were cut to fit the token budget")
    if assembly.duplicates:
        notes.append(f"{assembly.duplicates} passages repeated better ones")
    if checked.removed_markers:
        markers = ", ".join(f"[{marker}]" for marker in checked.removed_markers)
        notes.append(f"citations of sources that do not exist were removed: {markers}")
    return notes
