"""Vectors of spans of a text: means of its token vectors, for encoders that pool by the mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_cluster.errors import ModelError
from rag_cluster.models.ports import Span, Vectors

ALLOWED = ("Transformer", "Pooling", "Normalize")


def check_mean_pooling(model: Any, name: str) -> None:
    """Raises ModelError unless a SentenceTransformer's vectors are means of its token vectors.

    Then a chunk's vector can be made of the vectors of its tokens. Modules behind the pooling, such
    as a Dense layer, would have to be known to leave means means.
    """
    for module in model:
        kind = type(module).__name__
        if kind not in ALLOWED:
            raise ModelError(f"embed.mode late: {name!r} has a module {kind}; {_NEEDS}")
        pooling = getattr(module, "pooling_mode", "mean")
        if pooling != "mean":
            raise ModelError(f"embed.mode late: {name!r} pools its tokens by {pooling!r}; {_NEEDS}")
    if [type(module).__name__ for module in model][:2] != ["Transformer", "Pooling"]:
        raise ModelError(f"embed.mode late: {name!r} does not pool the tokens of a text; {_NEEDS}")


_NEEDS = (
    "late chunking needs a transformer with mean pooling and nothing else but normalisation: take "
    "another model, or embed.mode passage"
)


def offsets_of(model: Any, texts: Sequence[str], max_tokens: int) -> list[tuple[Any, Any]]:
    """For each text the spans int [tokens, 2] of its tokens, and bool [tokens] of special ones."""
    tokenizer = model.tokenizer
    if not getattr(tokenizer, "is_fast", False):
        raise ModelError(f"embed.mode late: {type(tokenizer).__name__} does not give offsets")
    found = tokenizer(
        list(texts),
        truncation="longest_first",
        max_length=max_tokens,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    return [
        (np.array(offsets).reshape(-1, 2), np.array(special, dtype=bool))
        for offsets, special in zip(
            found["offset_mapping"], found["special_tokens_mask"], strict=True
        )
    ]


def pool_spans(
    states: Vectors,
    offsets: NDArray[np.integer],
    special: NDArray[np.bool_],
    spans: Sequence[Span],
    start: int = 0,
) -> Vectors:
    """float32 [len(spans), dim]: the mean of the token vectors [tokens, dim] of each span.

    `offsets` are int [tokens, 2]; the text proper begins at `start`, behind a prefix. A token
    belongs to the spans that it has a character in. The tokens in front of the text (such as [CLS]
    and a prefix) belong to the span with the first token, and those behind it (such as [SEP]) to
    the span with the last: so a span of the whole text is the mean over all, as the model itself
    takes it. A span without a token gets the mean of those at both ends.
    """
    inside = np.flatnonzero(~special & (offsets[:, 1] > start) & (offsets[:, 1] > offsets[:, 0]))
    pooled = np.zeros((len(spans), states.shape[1]), dtype=np.float32)
    if not len(inside):
        pooled[:] = states.mean(axis=0)
        return pooled
    first, last = inside[0], inside[-1]
    ends = np.ones(len(states), dtype=bool)
    ends[first : last + 1] = False
    for row, (begin, end) in enumerate(spans):
        own = inside[(offsets[inside, 1] > begin) & (offsets[inside, 0] < end)]
        if not len(own):
            pooled[row] = states[ends].mean(axis=0) if ends.any() else 0
            continue
        low = 0 if own[0] == first else own[0]
        high = len(states) if own[-1] == last else own[-1] + 1
        pooled[row] = states[low:high].mean(axis=0)
    return pooled
