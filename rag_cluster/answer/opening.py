"""Opening a collection for queries: the configuration that holds, and whether it fits."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_cluster import config as configuration
from rag_cluster.answer.generate import Generator, load_generator
from rag_cluster.config import Config, RerankerKind
from rag_cluster.errors import CollectionError
from rag_cluster.models.ports import (
    LLM,
    AsyncEncoder,
    AsyncScorer,
    Encoder,
    Kind,
    Scorer,
    Vectors,
)
from rag_cluster.rerank import ByScore, Reranker, Stage
from rag_cluster.retrieve.transform import Model, Transformer
from rag_cluster.storage import Collection

if TYPE_CHECKING:
    from rag_cluster.models.prompting import Prompting


def query_config(
    collection: Collection, path: Path | None = None, settings: Sequence[str] = ()
) -> Config:
    """The configuration that made the collection, with a file and settings over it.

    Raises CollectionError where these name another encoder, or other metadata fields, than those
    that the collection was made with: searching it with them would silently find nothing.
    """
    made = configuration.build(collection.manifest["config"])
    config = configuration.load(path, settings, base=collection.manifest["config"])
    same = ("mode", "model", "revision", "dim", "normalize", "query_prefix", "passage_prefix")
    for key in same:
        _same(collection, f"embed.{key}", getattr(made.embed, key), getattr(config.embed, key))
    _same(collection, "metadata.fields", made.metadata.fields, config.metadata.fields)
    for key in ("model", "revision", "max_terms"):
        _same(collection, f"sparse.{key}", getattr(made.sparse, key), getattr(config.sparse, key))
    if "bm25" in config.retrieve.channels and made.index.lexical.kind == "none":
        raise CollectionError(
            f"{collection.path} has no BM25 index (it was made with index.lexical.kind: none): "
            "search it with retrieve.channels=[dense]"
        )
    return config


class LazyEncoder:
    """An encoder that is loaded when it is first asked: a search by BM25 alone never asks."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._thread: AsyncEncoder | None = None

    async def encode(self, texts: Sequence[str], kind: Kind = "query") -> Vectors:
        """float32 [len(texts), dim]."""
        if self._thread is None:
            from rag_cluster.models.threads import AsyncEncoderThread

            self._thread = AsyncEncoderThread(self._models.loaded_encoder)
        return await self._thread.encode(texts, kind)


class Models:
    """The models of a configuration, each loaded when it is first asked for, and once."""

    def __init__(self, config: Config, collection: Collection) -> None:
        self._config = config
        self._collection = collection
        self.encoder: AsyncEncoder = LazyEncoder(self)

    @functools.cached_property
    def loaded_encoder(self) -> Encoder:
        """The encoder. Raises CollectionError where it is not the one that made the vectors."""
        from rag_cluster.models.encoder import load_encoder

        encoder = load_encoder(self._config.embed)
        check_encoder(self._collection, encoder.dim, encoder.revision)
        return encoder

    @functools.cached_property
    def llm(self) -> LLM:
        """The language model of `llm`. Raises ConfigError where there is none for queries."""
        from rag_cluster.models.llm import load_llm

        return load_llm(self._config.llm)

    @functools.cached_property
    def prompting(self) -> Prompting:
        """How prompts of that language model are counted and cut."""
        from rag_cluster.models.prompting import Prompting

        return Prompting(self._config)

    def transformer(self) -> Transformer | None:
        """What makes something else of a query before it is searched, if anything."""
        from rag_cluster.index.analyzer import load_analyzer

        config = self._config.transform
        if config.kind == "none":
            return None
        model = Model(self.llm, self.prompting, self._config.prompts) if config.asks else None
        analyzer = load_analyzer(self._config.index.lexical.language)
        return Transformer(config, analyzer.tokens, model)

    def scorers(self) -> list[Stage]:
        """The reranking stages."""
        rerank = self._config.rerank
        counts = [rerank.candidates, *(stage.keep for stage in rerank.used)]
        return [
            Stage(stage.kind, self._reranker(stage.kind, stage.model), count, stage.asks)
            for stage, count in zip(rerank.used, counts, strict=False)
        ]

    def generator(self) -> Generator:
        """What writes the answer."""
        language = self._config.index.lexical.language
        return load_generator(self._config.generate, self.encoder, language=language)

    def _reranker(self, kind: RerankerKind, model: str | None) -> Reranker:
        config = self._config.rerank
        match kind:
            case "listwise_llm":
                from rag_cluster.rerank.listwise import Listwise

                return Listwise(
                    self.llm,
                    self.prompting,
                    self._config.prompts,
                    window=config.window,
                    step=config.step,
                    passage_tokens=config.passage_tokens,
                )
            case "pointwise_llm":
                from rag_cluster.rerank.pointwise import YesOrNo

                judge = YesOrNo(
                    self.llm,
                    self.prompting,
                    self._config.prompts,
                    passage_tokens=config.passage_tokens,
                )
                return self._by_score(judge, self._config.llm.concurrency)
            case "late_interaction":
                scorer = self._late_interaction(model)
            case "cross_encoder" | "colbert" | "monot5":
                from rag_cluster.models.scorer import load_scorer

                assert model is not None  # the configuration was checked
                scorer = load_scorer(kind, model, config.batch_size)
        from rag_cluster.models.threads import AsyncScorerThread

        return self._by_score(AsyncScorerThread(scorer), config.batch_size)

    def _by_score(self, scorer: AsyncScorer, batch: int) -> Reranker:
        """Batches only where work may be cut off between them."""
        return ByScore(scorer, None if self._config.rerank.deadline_ms is None else batch)

    def _late_interaction(self, model: str | None) -> Scorer:
        from rag_cluster.models.scorer import LateInteractionScorer

        if model is None:
            return LateInteractionScorer(self.loaded_encoder)
        from rag_cluster.models.encoder import load_encoder

        other = {"model": model, "dim": None, "revision": None, "max_tokens": None}
        return LateInteractionScorer(load_encoder(self._config.embed.model_copy(update=other)))


def check_encoder(collection: Collection, dim: int, revision: str) -> None:
    """Raises CollectionError where the loaded encoder is not the one that made the vectors."""
    encoder = collection.manifest["encoder"]
    _same(collection, "the encoder's dimension", encoder["dim"], dim)
    _same(collection, "the encoder's weights", encoder["revision"], revision)


def _same(collection: Collection, name: str, made: Any, asked: Any) -> None:
    if made != asked:
        raise CollectionError(
            f"{collection.path} was made with {name} = {made!r}, but this configuration says "
            f"{asked!r}: search with what made it, or ingest again into a new collection"
        )
