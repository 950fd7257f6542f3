"""Facts in place of passages: what a language model is asked for, and how its answer is read.

A proposition is a sentence that states one fact and is understood by itself. It is nearer to a
question than the passage that it was taken from, whose other facts blur its vector. Source: T.
Chen, H. Wang, S. Chen, W. Yu, K. Ma, X. Zhao, H. Zhang and D. Yu: Dense X Retrieval: What Retrieval
Granularity Should We Use? (EMNLP 2024, arXiv:2312.06648).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rag_cluster import prompts
from rag_cluster.config import Config
from rag_cluster.errors import ConfigError
from rag_cluster.generated import Asked
from rag_cluster.models.ports import Message, Request
from rag_cluster.models.prompting import Prompting
from rag_cluster.names import name_in_words, telling_name

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
    "required": ["facts"],
    "additionalProperties": False,
}
# Most tokens of a document's name, and of a section's path, in a prompt.
_LABEL = 64
# Tokens that the parts of a prompt may take more together than one by one.
_SLACK = 16
# Control characters have no place in a text, and a model may write them as escapes.
_CONTROLS = dict.fromkeys([*range(32), 127], " ")


def is_rewritten(chunk: Mapping[str, Any]) -> bool:
    """Whether a chunk (row of CHUNK, as it was cut) is to be rewritten as facts.

    Tables stay what they are, and so does what is no body text and is left out of searches.
    """
    return bool(chunk["searchable"] and chunk["kind"] != "table" and chunk["role"] == "body")


class Propositions:
    """Makes the requests for the facts of a document's chunks."""

    def __init__(self, config: Config, prompting: Prompting) -> None:
        self._config = config
        self._prompting = prompting
        self._most = config.chunk.proposition.answer_tokens
        frame = prompting.length(self._request("", "", "").messages) + self._most
        frame += 2 * _LABEL + _SLACK
        self._room = prompting.window - frame
        if self._room < config.chunk.size:
            raise ConfigError(
                f"the window of {prompting.window} tokens has no room for a chunk of "
                f"{config.chunk.size} and the {frame} tokens of the prompt and its answer: raise "
                "llm.window, or lower chunk.size or chunk.proposition.answer_tokens"
            )

    def __call__(
        self, document: Mapping[str, Any], chunks: Sequence[Mapping[str, Any]]
    ) -> list[Asked]:
        """The requests for a document's chunks (rows of CHUNK), in their order.

        None for a chunk that is not rewritten, nor for one beyond the model's window: of a part of
        it there would be the facts of that part alone.
        """
        title = self._label(_name(document))
        asked = []
        for row in chunks:
            if is_rewritten(row) and self._prompting.count(row["text"]) <= self._room:
                request = self._request(title, self._label(row["section_path"]), row["text"])
                asked.append(Asked(row["chunk_id"], request))
        return asked

    def _label(self, text: str | None) -> str:
        return self._prompting.first(" ".join((text or "").split()), _LABEL) or "-"

    def _request(self, title: str, section: str, passage: str) -> Request:
        asked = prompts.render(
            self._config.prompts, "proposition", title=title, section=section, passage=passage
        )
        return Request(
            messages=(Message("user", asked),),
            max_tokens=self._most,
            temperature=self._config.llm.temperature,
            json_schema=SCHEMA,
        )


def _name(document: Mapping[str, Any]) -> str:
    """What a document is called: what its file's name says beyond the title, and the title."""
    title, uri = document["title"] or "", document["uri"] or ""
    parts = [part for part in (telling_name(uri, title), title) if part]
    return " > ".join(parts) or name_in_words(uri)


def read_facts(answer: str) -> list[str]:
    """The facts that an answer (JSON of SCHEMA) holds, in their order, each once.

    Without white space at their ends; such as hold no letter or digit, and such as differ from one
    before only in case or in the mark at their end, are left out. [] where nothing can be read.
    """
    try:
        found = json.loads(answer)
    except ValueError:
        return []
    facts = found.get("facts") if isinstance(found, dict) else None
    kept: dict[str, str] = {}
    for fact in facts if isinstance(facts, list) else []:
        if isinstance(fact, str):
            text = " ".join(fact.translate(_CONTROLS).split())
            key = text.casefold().rstrip(".!;, ")
            if any(character.isalnum() for character in key):
                kept.setdefault(key, text)
    return list(kept.values())
