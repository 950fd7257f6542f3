"""Opening a collection for queries: the configuration that holds, and whether it fits."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rag_cluster import config as configuration
from rag_cluster.answer.generate import Generator, load_generator
from rag_cluster.config import Config, RerankerKind
from rag_cluster.errors import CollectionError
from rag_cluster.models.ports import AsyncEncoder, AsyncScorer, Encoder, Kind, Vectors
from rag_cluster.storage import Collection


def query_config(
    collection: Collection, path: Path | None = None, settings: Sequence[str] = ()
) -> Config:
    """The configuration that made the collection, with a file and settings over it.

    Raises CollectionError where these name another encoder, or other metadata fields, than those
    that the collection was made with: searching it with them would silently find nothing.
    """
    made = configuration.build(collection.manifest["config"])
    config = configuration.load(path, settings, base=collection.manifest["config"])
    for key in ("model", "revision", "dim", "normalize", "query_prefix", "passage_prefix"):
        _same(collection, f"embed.{key}", getattr(made.embed, key), getattr(config.embed, key))
    _same(collection, "metadata.fields", made.metadata.fields, config.metadata.fields)
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

    def scorers(self) -> list[tuple[AsyncScorer, int]]:
        """The reranking stages, each with how many candidates it is given."""
        rerank = self._config.rerank
        match rerank.kind:
            case "none":
                return []
            case "cascade":
                counts = [rerank.candidates, *(stage.keep for stage in rerank.stages)]
                return [
                    (self._scorer(stage.kind, stage.model), count)
                    for stage, count in zip(rerank.stages, counts, strict=False)
                ]
            case kind:
                return [(self._scorer(kind, rerank.model), rerank.candidates)]

    def generator(self) -> Generator:
        """What writes the answer."""
        language = self._config.index.lexical.language
        return load_generator(self._config.generate, self.encoder, language=language)

    def _scorer(self, kind: RerankerKind, model: str | None) -> AsyncScorer:
        from rag_cluster.models.scorer import LateInteractionScorer, load_cross_encoder
        from rag_cluster.models.threads import AsyncScorerThread

        if kind == "cross_encoder":
            assert model is not None  # the configuration was checked
            return AsyncScorerThread(load_cross_encoder(model, self._config.rerank.batch_size))
        if model is None:
            return AsyncScorerThread(LateInteractionScorer(self.loaded_encoder))
        from rag_cluster.models.encoder import load_encoder

        other = {"model": model, "dim": None, "revision": None, "max_tokens": None}
        embed = self._config.embed.model_copy(update=other)
        return AsyncScorerThread(LateInteractionScorer(load_encoder(embed)))


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
