"""The sections of the configuration that say how a document is cut, and their keys."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from rag_cluster.config.section import Section, key


class Semantic(Section):
    window: int = key(
        1, "sentences on either side of a gap that are compared by their vectors", ge=1, le=3
    )
    percentile: float = key(
        25.0, "cut at gaps less alike than so many percent of the document's", ge=0, le=100
    )
    threshold: float | None = key(
        None, "cut where the cosine is below this, instead of at a percentile", ge=-1, le=1
    )


class Proposition(Section):
    answer_tokens: int = key(
        600, "most tokens that the language model writes for a chunk, as JSON", ge=32
    )


class Chunk(Section):
    strategy: Literal["section", "fixed", "sentence", "recursive", "semantic", "proposition"] = key(
        "section",
        "section = chunks follow the heading tree; fixed = windows of tokens; sentence = whole "
        "sentences; recursive = paragraph, line, sentence, word; semantic = sentences up to a "
        "change of subject, by the encoder's vectors; proposition = like section, but what is "
        "searched are the facts that the language model of `llm` rewrites a chunk as",
    )
    size: int = key(180, "most tokens of a chunk's text, by the encoder's tokenizer", ge=8)
    overlap: int = key(0, "tokens that neighbouring chunks of one section share", ge=0)
    min_size: int = key(24, "a chunk under this many tokens joins its neighbour", ge=0)
    semantic: Semantic = key(Semantic(), "where the strategy semantic cuts")
    proposition: Proposition = key(Proposition(), "how the strategy proposition rewrites")

    @model_validator(mode="after")
    def _overlap_is_smaller(self) -> Chunk:
        if self.overlap >= self.size:
            raise ValueError(f"overlap ({self.overlap}) must be smaller than size ({self.size})")
        if self.overlap and self.strategy == "semantic":
            raise ValueError("chunks of the strategy semantic share nothing: set overlap to 0")
        return self


def check_facts(enrich: str, embed: str) -> None:
    """Raises ValueError where the settings `enrich.kind` or `embed.mode` do not go with facts."""
    if enrich in ("contextual", "heading+contextual"):
        raise ValueError(
            f"chunk.strategy is proposition and enrich.kind is {enrich}: a fact is written to be "
            "understood by itself and needs no context of a language model. Set enrich.kind to "
            "heading or none, or take another strategy"
        )
    if embed == "late":
        raise ValueError(
            "chunk.strategy is proposition and embed.mode is late: rewritten text has no tokens in "
            "the document, of which late chunking takes the mean. Set embed.mode to passage, or "
            "take another strategy"
        )
