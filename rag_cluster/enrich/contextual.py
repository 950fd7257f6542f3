"""What a language model is asked to place a chunk within its document (contextual retrieval).

Source: Anthropic, "Introducing Contextual Retrieval" (2024). The document stands first in the
prompt and the chunk last, so that all chunks of a document share the longest possible prefix, which
an engine with prefix caching computes once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_cluster import prompts
from rag_cluster.config import Config
from rag_cluster.errors import ConfigError
from rag_cluster.generated import Asked
from rag_cluster.models.ports import Message, Request
from rag_cluster.models.prompting import Prompting
from rag_cluster.models.tokenizer import Tokenizer

# Tokens that the parts of a prompt may take more together than one by one.
_SLACK = 16
# The share of the room that an outline may take of a document that does not fit.
_OUTLINE = 0.25


class Contextual:
    """Makes the requests for the contexts of a document's chunks."""

    def __init__(self, config: Config, prompting: Prompting) -> None:
        self._config = config
        self._prompting = prompting
        self._most = config.enrich.context_tokens
        frame = prompting.length(self._request("", "").messages) + self._most + _SLACK
        self._room = prompting.window - frame
        if self._room < config.chunk.size:
            raise ConfigError(
                f"the window of {prompting.window} tokens has no room for a chunk of "
                f"{config.chunk.size}, the {frame} tokens of the prompt and its answer, and some "
                "of the document: raise llm.window, or lower chunk.size or enrich.context_tokens"
            )

    def __call__(
        self, document: Mapping[str, Any], chunks: Sequence[Mapping[str, Any]]
    ) -> list[Asked]:
        """The requests for a document's chunks (rows of CHUNK), in their order.

        None for a chunk that is not searched, and none where the chunk is the whole document.
        """
        text = document["text"]
        rows = [row for row in chunks if row["searchable"] and not _is_all(row, text)]
        # A formula or a table's row may be larger than any chunk should be.
        passages = [self._prompting.first(_passage(row), self._room) for row in rows]
        longest = max(map(self._prompting.count, passages), default=0)
        fitted = _Fitted(document, self._room - longest, self._prompting)
        asked = []
        for row, passage in zip(rows, passages, strict=True):
            around, dropped = fitted.around(row["start"], row["end"])
            asked.append(Asked(row["chunk_id"], self._request(around, passage), dropped))
        return asked

    def _request(self, document: str, passage: str) -> Request:
        asked = prompts.render(self._config.prompts, "context", document=document, passage=passage)
        return Request(
            messages=(Message("user", asked),),
            max_tokens=self._most,
            temperature=self._config.llm.temperature,
        )


class _Fitted:
    """A document as it fits: whole, or an outline and the stretch of text around a chunk.

    The stretches begin at fixed places, half a stretch from one another, so that the chunks that
    lie in the same one share a prefix too.
    """

    def __init__(self, document: Mapping[str, Any], room: int, prompting: Prompting) -> None:
        self._text: str = document["text"]
        self._tokens = prompting.count(self._text)
        self._whole = self._tokens <= room
        if self._whole:
            return
        room = max(room, 0)
        self._outline = prompting.first(_outline(document), int(room * _OUTLINE))
        room -= prompting.count(self._outline)
        # Characters of as many tokens, by the document's own mean.
        self._size = max(1, int(room * len(self._text) / max(1, self._tokens) * 0.9))
        self._room = room
        self._prompting = prompting

    def around(self, start: int, end: int) -> tuple[str, int]:
        """What stands for the document beside a chunk, and the tokens that are left out."""
        if self._whole:
            return self._text, 0
        step = max(1, self._size // 2)
        centre = (start + end) // 2
        first = max(0, round((centre - self._size / 2) / step)) * step
        stretch = self._prompting.first(self._text[first : first + self._size], self._room)
        kept = self._prompting.count(stretch)
        parts = [self._outline, f"[...]\n{stretch}\n[...]"] if stretch else [self._outline]
        return "\n\n".join(parts), max(0, self._tokens - kept)


def _outline(document: Mapping[str, Any]) -> str:
    """Title and headings, indented by their level."""
    headings = [
        "  " * max(0, section["level"] - 1) + " ".join(section["title"].split())
        for section in document["sections"] or []
        if section["title"]
    ]
    lines = [document["title"] or "", *headings]
    return "\n".join(line for line in lines if line)


def _is_all(chunk: Mapping[str, Any], text: str) -> bool:
    return not (text[: chunk["start"]].strip() or text[chunk["end"] :].strip())


def _passage(chunk: Mapping[str, Any]) -> str:
    return "\n".join(part for part in (chunk["header"], chunk["text"]) if part)


def read_context(answer: str, most: int, tokenizer: Tokenizer) -> str:
    """The context that an answer holds: its first paragraph, in at most `most` tokens.

    It ends with a whole sentence where it holds one. "" where the answer holds no word.
    """
    paragraphs = [" ".join(part.split()) for part in answer.split("\n\n")]
    text = next((part.strip("\"' ") for part in paragraphs if _has_word(part)), "")
    spans = tokenizer.spans(text)
    if len(spans) > most:
        text = text[: spans[most][0]].rstrip()
        stop = max(text.rfind(mark) for mark in (". ", "! ", "? ", "\u3002"))
        text = text[: stop + 1] if stop > len(text) // 2 else text
    return text


def _has_word(text: str) -> bool:
    return any(character.isalnum() for character in text)
