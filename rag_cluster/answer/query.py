"""THE query path: the command line, the service and the evaluation all run this.

query -> hits (`answer.search`)
question -> hits -> expand -> assemble -> generate -> checked citations -> guardrails -> answer
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from rag_cluster.answer.assemble import Assembly, assemble
from rag_cluster.answer.citations import CheckedAnswer, Citation, check_citations
from rag_cluster.answer.generate import Generator
from rag_cluster.answer.guardrails import Guarded, Retrieved, Verdict, guard, read_date
from rag_cluster.answer.opening import Models, query_config
from rag_cluster.answer.search import Searcher, SearchResult, Timings, hit_to_json, rounded, timed
from rag_cluster.answer.sources import Source
from rag_cluster.config import Config
from rag_cluster.errors import UsageError
from rag_cluster.models.ports import AsyncEncoder
from rag_cluster.models.tokenizer import load_tokenizer
from rag_cluster.rerank import Stage
from rag_cluster.retrieve.expand import expand
from rag_cluster.retrieve.transform import Transformed, Transformer
from rag_cluster.schema import Passage
from rag_cluster.storage import ChunkStore, Collection

__all__ = ["Answer", "Engine", "SearchResult"]


@dataclass(frozen=True)
class Answer:
    """An answer whose citations were checked, with the hits that it was made from.

    `guardrails` are the verdicts of the rules that are on, and `notes` say in words what these
    found, what was left out and what fell back. Where a rule blocks the answer, `answer` says so.
    """

    question: str
    answer: str
    citations: list[Citation]
    hits: list[Passage]
    timings_ms: Timings
    notes: list[str] = field(default_factory=list)
    guardrails: list[Verdict] = field(default_factory=list)
    transformed: Transformed | None = None

    def to_json(self) -> dict[str, Any]:
        """The object that `ask --json` prints."""
        return {
            "question": self.question,
            "answer": self.answer,
            "citations": [asdict(citation) for citation in self.citations],
            "hits": [hit_to_json(hit) for hit in self.hits],
            "timings_ms": rounded(self.timings_ms),
            "transform": None if self.transformed is None else self.transformed.to_json(),
            "notes": self.notes,
            "guardrails": {verdict.rule: verdict.to_json() for verdict in self.guardrails},
        }


class Engine:
    """An opened version with what its configuration needs to search and to answer."""

    def __init__(
        self,
        collection: Collection,
        config: Config,
        encoder: AsyncEncoder,
        scorers: Sequence[Stage] = (),
        generator: Generator | None = None,
        transformer: Transformer | None = None,
    ) -> None:
        """`scorers` are the reranking stages."""
        self.collection = collection
        self.config = config
        self._searcher = Searcher(collection, config, encoder, scorers, transformer)
        self.store: ChunkStore = self._searcher.store
        self._generator = generator

    @classmethod
    def open(
        cls, path: str | Path, config: Path | None = None, settings: Sequence[str] = ()
    ) -> Engine:
        """The published version, with the configuration that made it and `config` over that.

        Raises CollectionError where the collection was made with another encoder.
        """
        collection = Collection.open(path)
        effective = query_config(collection, config, settings)
        models = Models(effective, collection)
        return cls(
            collection,
            effective,
            models.encoder,
            models.scorers(),
            models.generator(),
            models.transformer(),
        )

    def close(self) -> None:
        """Closes connections to servers, where there are any."""
        self._searcher.close()

    async def search(
        self, query: str, *, top_k: int | None = None, where: Mapping[str, Any] | None = None
    ) -> SearchResult:
        """The `top_k` best passages among those that the filter `where` lets through.

        Raises UsageError for an empty query and FilterError for a filter that cannot be used.
        """
        return await self._searcher.search(query, top_k=top_k, where=where)

    async def ask(
        self, question: str, *, top_k: int | None = None, where: Mapping[str, Any] | None = None
    ) -> Answer:
        """An answer from the passages that a search finds. Raises as `search` does."""
        if self._generator is None:
            raise UsageError("this engine was made without a generator: it can only search")
        start = time.perf_counter()
        found = await self.search(question, top_k=top_k, where=where)
        timings = {name: value for name, value in found.timings_ms.items() if name != "total"}
        with timed(timings, "assemble"):
            assembly = self._assemble(found.hits)
        with timed(timings, "generate"):
            draft = await self._generator.generate(found.query, assembly.sources)
        with timed(timings, "check"):
            checked = check_citations(draft.text, assembly.sources, self._page_of, found.query)
        with timed(timings, "guard"):
            guarded = self._guard(found, checked, assembly.sources)
        timings["total"] = (time.perf_counter() - start) * 1000
        return Answer(
            question=found.query,
            answer=guarded.text,
            citations=list(guarded.citations),
            hits=found.hits,
            timings_ms=timings,
            notes=[*found.notes, *notes_of(assembly, checked), *guarded.notes],
            guardrails=list(guarded.verdicts),
            transformed=found.transformed,
        )

    def _guard(
        self, found: SearchResult, checked: CheckedAnswer, sources: Sequence[Source]
    ) -> Guarded:
        config = self.config
        language = config.index.lexical.language
        dates = self._dates(sources)
        retrieved = Retrieved(found.hits, found.standing, dates, language)
        return guard(config.guardrails, found.query, checked, sources, retrieved)

    def _dates(self, sources: Sequence[Source]) -> dict[str, date]:
        """The declared dates of the sources' documents, by doc_id."""
        name = self.config.guardrails.date_field
        if name is None:
            return {}
        column = self.store.table.column(name)
        values = {
            source.doc_id: column[self.store.row_of(source.parts[0].chunk_id)].as_py()
            for source in sources
        }
        return {doc_id: day for doc_id, value in values.items() if (day := read_date(value))}

    def _assemble(self, hits: Sequence[Passage]) -> Assembly:
        config = self.config
        passages = expand(hits, self.store, config.retrieve.expand, config.retrieve.neighbours)
        tokenizer = load_tokenizer(config.embed.model, config.embed.revision)
        return assemble(
            passages,
            budget_tokens=config.answer.budget_tokens,
            count_tokens=tokenizer.count,
            max_passages=config.answer.passages,
            duplicate_threshold=config.answer.duplicate_threshold,
        )

    def _page_of(self, doc_id: str, offset: int) -> int | None:
        row = self.collection.document(doc_id, ["pages"])
        pages = (row or {}).get("pages") or []
        for page in pages:
            if page["start"] <= offset < page["end"]:
                return int(page["number"])
        return int(pages[-1]["number"]) if pages else None


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
