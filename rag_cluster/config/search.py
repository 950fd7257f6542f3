"""The sections of the configuration that say how a query is searched, and their keys."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from rag_cluster.config.section import Section, key
from rag_cluster.schema import Role


class Weights(Section):
    dense: float = key(1.0, "weight of the dense channel in fusion", ge=0)
    bm25: float = key(1.0, "weight of the bm25 channel in fusion", ge=0)
    splade: float = key(1.0, "weight of the splade channel in fusion", ge=0)


class Retrieve(Section):
    channels: tuple[Literal["dense", "bm25", "splade"], ...] = key(
        ("dense", "bm25"), "what is searched, to be fused; splade needs sparse.model", min_length=1
    )
    fusion: Literal["rrf", "convex", "routed"] = key(
        "routed",
        "rrf = reciprocal rank fusion; convex = weighted mean of scores, each divided by its "
        "channel's best; routed = convex whose weights follow the kind of query",
    )
    top_k: int = key(10, "hits to return", ge=1, le=10_000)
    candidates: int = key(200, "hits to fetch of each channel before fusion", ge=1)
    rrf_k: float = key(60.0, "the constant of reciprocal rank fusion", gt=0)
    alpha: float = key(
        0.6, "convex fusion: weight of dense; bm25 and splade share the rest", ge=0, le=1
    )
    weights: Weights = key(
        Weights(), "rrf: weights of the channels; convex and routed: how those without dense share"
    )
    exclude_roles: tuple[Role, ...] = key(
        ("references", "contents", "index"), "sections of these roles are never returned"
    )
    collapse: Literal["none", "section", "document"] = key(
        "none", "keep only the best hit of each section or document"
    )
    expand: Literal["none", "neighbours", "parent"] = key(
        "neighbours", "what the generator reads with a fragment, as far as the budget allows"
    )
    neighbours: int = key(1, "fragments on either side, within the section", ge=0)


TransformKind = Literal["none", "hyde", "multi_query", "step_back", "feedback", "feedback_llm"]


class Transform(Section):
    kind: TransformKind = key(
        "none",
        "what is made of a query before it is searched (docs/retrieval.md): hyde = passages that "
        "answer it, for the dense channel; multi_query = other ways to ask it; step_back = a more "
        "general question beside it; feedback = words of the first results, for bm25 (RM3, no "
        "language model); feedback_llm = words that a language model picks from them",
    )
    count: int = key(4, "hyde: passages; multi_query: ways to ask", ge=1, le=20)
    max_tokens: int = key(200, "most tokens that the language model writes at a time", ge=8)
    temperature: float = key(
        0.7, "hyde: how different its passages are; at 0 they are all alike", ge=0, le=2
    )
    documents: int = key(10, "feedback: first results that are read", ge=1, le=100)
    terms: int = key(10, "feedback: words that are added", ge=1, le=100)
    original_weight: float = key(
        0.7, "feedback: share of the query's own words; the added ones have the rest", ge=0, le=1
    )
    timeout_s: float = key(15.0, "seconds after which the query is searched as it is", gt=0)

    @property
    def asks(self) -> bool:
        """Whether a language model is asked."""
        return self.kind not in ("none", "feedback")


RerankerKind = Literal[
    "cross_encoder", "late_interaction", "colbert", "monot5", "listwise_llm", "pointwise_llm"
]
RerankKind = Literal["none", RerankerKind, "cascade"]
_OWN_MODEL = {"cross_encoder", "colbert", "monot5"}


class RerankStage(Section):
    kind: RerankerKind = key("late_interaction", "which reranker")
    model: str | None = key(None, "its model; null = the encoder's (late_interaction only)")
    keep: int = key(20, "hits that go on from here", ge=1)

    @property
    def asks(self) -> bool:
        """Whether a language model is asked."""
        return self.kind in ("listwise_llm", "pointwise_llm")


class Rerank(Section):
    kind: RerankKind = key(
        "none",
        "how the candidates are ordered anew (docs/retrieval.md); listwise_llm and pointwise_llm "
        "ask the model of `llm`; cascade = the stages, one after another",
    )
    model: str | None = key(
        None,
        "cross_encoder, colbert, monot5: hub id, local path, package:MODULE/PATH; for a "
        "cross_encoder also fake:overlap",
    )
    candidates: int = key(50, "fused hits that are reranked", ge=1)
    batch_size: int = key(32, "pairs per forward pass", ge=1)
    window: int = key(20, "listwise_llm: passages that the model ranks at a time", ge=2)
    step: int = key(10, "listwise_llm: by how many passages the window moves", ge=1)
    passage_tokens: int = key(300, "listwise_llm, pointwise_llm: most tokens of a passage", ge=8)
    deadline_ms: float | None = key(
        None, "milliseconds after which the order so far is used; null = no limit", gt=0
    )
    stages: tuple[RerankStage, ...] = key((), "cascade: the stages in order")

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Rerank:
        if self.kind == "cascade" and not self.stages:
            raise ValueError("rerank.kind is cascade, but rerank.stages is empty")
        for stage in self.used:
            if stage.kind in _OWN_MODEL and stage.model is None:
                raise ValueError(f"the reranker {stage.kind} needs a model: set rerank.model")
        if self.step >= self.window:
            raise ValueError(
                f"step ({self.step}) must be smaller than window ({self.window}): where windows do "
                "not overlap, no passage is carried forward"
            )
        return self

    @property
    def used(self) -> tuple[RerankStage, ...]:
        """The stages that there are: those of a cascade, else the one reranker, or none."""
        match self.kind:
            case "none":
                return ()
            case "cascade":
                return self.stages
            case kind:
                return (RerankStage(kind=kind, model=self.model),)


def check_queries(transform: Transform, retrieve: Retrieve, rerank: Rerank, engine: str) -> None:
    """Raises ValueError where the transform or a reranker lacks a channel or a language model."""
    channels = ", ".join(retrieve.channels)
    if transform.kind == "hyde" and "dense" not in retrieve.channels:
        raise ValueError(
            f"transform.kind is hyde, but retrieve.channels is [{channels}]: a passage that a "
            "model made up is near the answer in meaning, which the dense channel sees; its words "
            "are mostly wrong, and searching by them ranks worse than the query does. Add dense "
            "to retrieve.channels, or use feedback or multi_query"
        )
    if transform.kind in ("feedback", "feedback_llm") and "bm25" not in retrieve.channels:
        raise ValueError(
            f"transform.kind is {transform.kind}, which adds words for the bm25 channel, but "
            f"retrieve.channels is [{channels}]"
        )
    asking = [f"the reranker {stage.kind}" for stage in rerank.used if stage.asks]
    if transform.asks:
        asking.insert(0, f"transform.kind {transform.kind}")
    if engine == "none" and asking:
        raise ValueError(f"{asking[0]} needs a language model: set llm.engine and llm.model")
