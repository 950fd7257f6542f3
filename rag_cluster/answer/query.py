"""THE query path: the command line, the service and the evaluation all run this.

query -> hits (`answer.search`)
question -> hits -> expand -> assemble -> grounds -> generate -> ... -> answer (`answer.writing`)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from rag_cluster.answer.assemble import Assembly, assemble
from rag_cluster.answer.found import SearchResult, timed
from rag_cluster.answer.generate import Generator
from rag_cluster.answer.guardrails import read_date
from rag_cluster.answer.opened import Opened
from rag_cluster.answer.opening import Models, query_config
from rag_cluster.answer.search import Searcher
from rag_cluster.answer.sources import Source
from rag_cluster.answer.writing import Answer, Grounds, PageSpan, write, write_in_pieces
from rag_cluster.config import Config
from rag_cluster.errors import UsageError
from rag_cluster.models.ports import AsyncEncoder
from rag_cluster.models.tokenizer import load_tokenizer
from rag_cluster.rerank import Stage
from rag_cluster.retrieve.expand import expand
from rag_cluster.retrieve.transform import Transformer
from rag_cluster.schema import Passage
from rag_cluster.storage import ChunkStore, Collection

__all__ = ["Answer", "Engine", "Grounds", "SearchResult"]


class Engine:
    """An opened version with what its configuration needs to search and to answer."""

    def __init__(
        self,
        opened: Opened,
        config: Config,
        encoder: AsyncEncoder,
        scorers: Sequence[Stage] = (),
        generator: Generator | None = None,
        transformer: Transformer | None = None,
    ) -> None:
        """`scorers` are the reranking stages. Raises UsageError for a channel not opened."""
        self.opened = opened
        self.collection = opened.collection
        self.store: ChunkStore = opened.store
        self.config = config
        self._searcher = Searcher(opened, config, encoder, scorers, transformer)
        self._generator = generator

    @classmethod
    def open(
        cls, path: str | Path, config: Path | None = None, settings: Sequence[str] = ()
    ) -> Engine:
        """The published version, with the configuration that made it and `config` over that.

        Raises CollectionError where the collection was made with another encoder.
        """
        collection = Collection.open(path)
        models = Models(query_config(collection, config, settings), collection)
        return cls.of(Opened(collection, models.config), models)

    @classmethod
    def of(cls, opened: Opened, models: Models, config: Config | None = None) -> Engine:
        """An opened version asked with these models, with their configuration or another one.

        Such another one may differ in what concerns a single query: the search and the answer.
        """
        return cls(
            opened,
            config or models.config,
            models.encoder,
            models.scorers(config),
            models.generator(config),
            models.transformer(config),
        )

    def close(self) -> None:
        """Closes connections to servers, where there are any."""
        self.opened.close()

    async def search(
        self,
        query: str,
        *,
        top_k: int | None = None,
        where: Mapping[str, Any] | None = None,
        within_s: float | None = None,
    ) -> SearchResult:
        """The `top_k` best passages among those that the filter `where` lets through.

        `within_s` are the seconds from now that it should take: a transform may have half of them,
        and reranking is cut off before they are over. Raises UsageError for an empty query and
        FilterError for a filter that cannot be used.
        """
        return await self._searcher.search(query, top_k=top_k, where=where, within_s=within_s)

    async def ground(
        self,
        question: str,
        *,
        top_k: int | None = None,
        where: Mapping[str, Any] | None = None,
        within_s: float | None = None,
    ) -> Grounds:
        """What an answer is to be written from. Raises as `search` does."""
        found = await self.search(question, top_k=top_k, where=where, within_s=within_s)
        with timed(found.timings_ms, "assemble"):
            assembly = self._assemble(found.hits)
            pages = self._pages(assembly.sources)
        found.timings_ms["total"] += found.timings_ms["assemble"]
        language = self.config.index.lexical.language
        return Grounds(found, assembly, pages, self._dates(assembly.sources), language)

    async def ask(
        self, question: str, *, top_k: int | None = None, where: Mapping[str, Any] | None = None
    ) -> Answer:
        """An answer from the passages that a search finds. Raises as `search` does."""
        writer = self._writer()
        grounds = await self.ground(question, top_k=top_k, where=where)
        return await write(grounds, writer, self.config.guardrails)

    async def ask_in_pieces(
        self, question: str, *, top_k: int | None = None, where: Mapping[str, Any] | None = None
    ) -> AsyncIterator[SearchResult | str | Answer]:
        """The search, pieces of the draft as they come, and last the answer, which counts."""
        writer = self._writer()
        grounds = await self.ground(question, top_k=top_k, where=where)
        yield grounds.found
        async for piece in write_in_pieces(grounds, writer, self.config.guardrails):
            yield piece

    def _writer(self) -> Generator:
        if self._generator is None:
            raise UsageError("this engine was made without a generator: it can only search")
        return self._generator

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

    def _pages(self, sources: Sequence[Source]) -> dict[str, list[PageSpan]]:
        """The pages that the sources stand on. Documents are read only for what crosses pages."""
        pages: dict[str, list[PageSpan]] = {}
        for source in sources:
            if source.pages is None:
                continue
            spans = pages.setdefault(source.doc_id, [])
            if source.pages[0] == source.pages[1]:
                spans.append((source.start, source.end, source.pages[0]))
                continue
            row = self.collection.document(source.doc_id, ["pages"])
            spans += [
                (page["start"], page["end"], page["number"])
                for page in (row or {}).get("pages") or []
                if page["start"] < source.end and source.start < page["end"]
            ]
        return {doc_id: sorted(spans) for doc_id, spans in pages.items()}
