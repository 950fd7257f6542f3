"""Opening a collection for queries: the configuration that holds, and whether it fits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rag_cluster import config as configuration
from rag_cluster.answer.generate import Generator, language_model, load_generator
from rag_cluster.config import Config, Rerank, RerankerKind
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

    Raises as `query_config_over` does.
    """
    return query_config_over(collection, configuration.read_tree(path, settings))


def query_config_over(collection: Collection, tree: Mapping[str, Any]) -> Config:
    """The configuration that made the collection, with a tree of settings over it.

    Raises CollectionError where these name another encoder, or other metadata fields, than those
    that the collection was made with: searching it with them would silently find nothing.
    """
    made = collection.config
    config = configuration.over(collection.manifest["config"], tree)
    same = ("mode", "model", "revision", "dim", "normalize", "query_prefix", "passage_prefix")
    for key in same:
        _same(collection, f"embed.{key}", getattr(made.embed, key), getattr(config.embed, key))
    _same(collection, "metadata.fields", made.metadata.fields, config.metadata.fields)
    if made.sparse.model is None and config.sparse.model is not None:
        raise CollectionError(
            f"{collection.path} has no sparse vectors (it was made without sparse.model): ingest "
            f"again with --set sparse.model={config.sparse.model}, or search without splade"
        )
    for key in ("model", "revision", "max_tokens", "max_terms"):
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
    """The models that an opened version is asked with, each loaded when it is first asked for.

    `config` is the one that the version was opened with. Rerankers, the transform and the generator
    may be asked for by another one that differs in the settings of a single query: it shares what
    was loaded. A service that runs a model elsewhere gives handles to it.
    """

    def __init__(
        self,
        config: Config,
        collection: Collection,
        encoder: AsyncEncoder | None = None,
        scorer: Callable[[RerankerKind, str | None], AsyncScorer] | None = None,
    ) -> None:
        """`encoder` and `scorer` (of a kind and a model) take the place of loaded ones."""
        self.config = config
        self._collection = collection
        self.encoder: AsyncEncoder = encoder or LazyEncoder(self)
        self._load_scorer = scorer or self._scorer
        self._scorers: dict[tuple[RerankerKind, str | None], AsyncScorer] = {}
        self._writers: dict[str, LLM] = {}

    @functools.cached_property
    def loaded_encoder(self) -> Encoder:
        """The encoder. Raises CollectionError where it is not the one that made the vectors."""
        from rag_cluster.models.encoder import load_encoder

        encoder = load_encoder(self.config.embed)
        check_encoder(self._collection, encoder.dim, encoder.revision)
        return encoder

    @functools.cached_property
    def llm(self) -> LLM:
        """The language model of `llm`. Raises ConfigError where there is none for queries."""
        from rag_cluster.models.llm import load_llm

        return load_llm(self.config.llm)

    @functools.cached_property
    def prompting(self) -> Prompting:
        """How prompts of that language model are counted and cut."""
        from rag_cluster.models.prompting import Prompting

        return Prompting(self.config)

    def transformer(self, config: Config | None = None) -> Transformer | None:
        """What makes something else of a query before it is searched, if anything."""
        from rag_cluster.index.analyzer import load_analyzer

        config = config or self.config
        if config.transform.kind == "none":
            return None
        model = Model(self.llm, self.prompting, config.prompts) if config.transform.asks else None
        analyzer = load_analyzer(config.index.lexical.language)
        return Transformer(config.transform, analyzer.tokens, model)

    def conversing(self) -> Model | None:
        """What makes the last question of a conversation standalone; None where a rule does.

        Raises ConfigError and ModelError where `llm` cannot be asked.
        """
        if self.config.llm.engine in ("none", "vllm"):  # vllm runs in batches at ingest
            return None
        return Model(self.llm, self.prompting, self.config.prompts)

    def scorers(self, config: Config | None = None) -> list[Stage]:
        """The reranking stages."""
        config = config or self.config
        rerank = config.rerank
        counts = [rerank.candidates, *(stage.keep for stage in rerank.used)]
        return [
            Stage(stage.kind, self._reranker(config, stage.kind, stage.model), count, stage.asks)
            for stage, count in zip(rerank.used, counts, strict=False)
        ]

    def generator(self, config: Config | None = None) -> Generator:
        """What writes the answer."""
        config = config or self.config
        language = config.index.lexical.language
        if config.generate.kind == "extractive":
            return load_generator(config.generate, self.encoder, language=language)
        wanted = language_model(config.generate)
        name = wanted.model_dump_json()
        if name not in self._writers:
            from rag_cluster.models.llm import load_llm

            self._writers[name] = load_llm(wanted, "generate")
        return load_generator(config.generate, self.encoder, self._writers[name], language)

    def _reranker(self, config: Config, kind: RerankerKind, model: str | None) -> Reranker:
        rerank = config.rerank
        match kind:
            case "listwise_llm":
                from rag_cluster.rerank.listwise import Listwise

                return Listwise(
                    self.llm,
                    self.prompting,
                    config.prompts,
                    window=rerank.window,
                    step=rerank.step,
                    passage_tokens=rerank.passage_tokens,
                )
            case "pointwise_llm":
                from rag_cluster.rerank.pointwise import YesOrNo

                judge = YesOrNo(
                    self.llm, self.prompting, config.prompts, passage_tokens=rerank.passage_tokens
                )
                return self._by_score(rerank, judge, config.llm.concurrency)
            case _:
                if (kind, model) not in self._scorers:
                    self._scorers[kind, model] = self._load_scorer(kind, model)
                return self._by_score(rerank, self._scorers[kind, model], rerank.batch_size)

    def _by_score(self, rerank: Rerank, scorer: AsyncScorer, batch: int) -> Reranker:
        """Batches only where work may be cut off between them."""
        return ByScore(scorer, None if rerank.deadline_ms is None else batch)

    def _scorer(self, kind: RerankerKind, model: str | None) -> AsyncScorer:
        from rag_cluster.models.threads import AsyncScorerThread

        encoder = (lambda: self.loaded_encoder) if model is None else None
        return AsyncScorerThread(load_scorer_of(kind, model, self.config, encoder))


def load_scorer_of(
    kind: RerankerKind, model: str | None, config: Config, own: Callable[[], Encoder] | None = None
) -> Scorer:
    """The scorer of a reranker that is no language model.

    `late_interaction` takes another encoder by `model`; `own` gives the collection's, which it
    takes without one. Raises ModelError where the model cannot be loaded.
    """
    match kind:
        case "late_interaction":
            from rag_cluster.models.encoder import load_encoder
            from rag_cluster.models.scorer import LateInteractionScorer

            if model is None:
                return LateInteractionScorer(own() if own else load_encoder(config.embed))
            other = {"model": model, "dim": None, "revision": None, "max_tokens": None}
            return LateInteractionScorer(load_encoder(config.embed.model_copy(update=other)))
        case "cross_encoder" | "colbert" | "monot5":
            from rag_cluster.models.scorer import load_scorer

            assert model is not None  # the configuration was checked
            return load_scorer(kind, model, config.rerank.batch_size)
        case _:
            raise ValueError(f"{kind} is a language model")


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
