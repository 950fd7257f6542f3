"""Passages that go into one prompt, cut so that it fits the model's window."""

from __future__ import annotations

from collections.abc import Sequence

from rag_cluster.errors import ModelError
from rag_cluster.models.prompting import Prompting

# Fewer tokens of a passage tell a model nothing.
_LEAST = 8


def beginnings(prompting: Prompting, texts: Sequence[str], most: int, beside: int) -> list[str]:
    """The beginning of each text: at most `most` tokens, and all together within the window.

    `beside` are the tokens of the rest of the prompt and of the completion. Raises ModelError where
    the window leaves less than a few tokens for each.
    """
    left = (prompting.window - beside) // max(1, len(texts))
    if left < _LEAST:
        raise ModelError(
            f"the language model's window of {prompting.window} tokens is too small for a prompt "
            f"with {len(texts)} passages"
        )
    return [prompting.first(text, min(most, left)) for text in texts]
