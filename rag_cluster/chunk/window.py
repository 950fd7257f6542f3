"""Whether what is indexed of a chunk fits into the encoder's window."""

from __future__ import annotations

from rag_cluster.config import Config
from rag_cluster.errors import ConfigError
from rag_cluster.models.tokenizer import load_tokenizer


def check_window(config: Config, max_tokens: int) -> None:
    """Raises ConfigError if a full chunk with its context exceeds the encoder's window.

    `max_tokens`: what the encoder reads of a text, special tokens included. A repeated table header
    needs no place of its own: it counts within `chunk.size`.
    """
    tokenizer = load_tokenizer(config.embed.model, config.embed.revision)
    special = tokenizer.special_tokens
    prefix = tokenizer.count([config.embed.passage_prefix])[0]
    # What is read within its document is read without a context of its own.
    context = 0 if config.embed.mode == "late" else config.enrich.tokens
    needed = config.chunk.size + context + prefix + special
    if needed <= max_tokens:
        return
    most = max_tokens - context - prefix - special
    advice = (
        f"set chunk.size to at most {most}"
        if most > config.chunk.overlap and most >= 8
        else "make chunk.size, enrich.max_tokens, enrich.context_tokens or embed.passage_prefix "
        "smaller"
    )
    raise ConfigError(
        f"the encoder {config.embed.model!r} reads {max_tokens} tokens of a text, but chunk.size "
        f"({config.chunk.size}) + the context of enrich.kind {config.enrich.kind} ({context}) + "
        f"embed.passage_prefix ({prefix}) + special tokens ({special}) are {needed}, so the ends "
        f"of chunks would not be searched: {advice}, or take an encoder with a larger window"
    )


def check_sparse_window(config: Config, max_tokens: int) -> None:
    """Raises ConfigError if a full chunk exceeds the window of the model of sparse vectors.

    That has a tokenizer of its own, so a chunk may still be some tokens longer for it than counted.
    """
    assert config.sparse.model is not None  # there is such a model
    special = load_tokenizer(config.sparse.model, config.sparse.revision).special_tokens
    needed = config.chunk.size + config.enrich.tokens + special
    if needed > max_tokens:
        raise ConfigError(
            f"the sparse model {config.sparse.model!r} reads {max_tokens} tokens of a text, but "
            f"chunk.size ({config.chunk.size}) + the context of enrich.kind {config.enrich.kind} "
            f"({config.enrich.tokens}) + special tokens ({special}) are {needed}: make chunk.size "
            "smaller, set sparse.max_tokens, or take a model with a larger window"
        )
