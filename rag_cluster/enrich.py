"""The stage that says where a chunk comes from: CHUNK -> CHUNK with `context`.

A fragment such as "The increase was due to pricing." is found by nobody; with the document's title
and the section path in front it is.
"""

from __future__ import annotations

from bisect import bisect_right

import pyarrow as pa

from rag_cluster.config import Config
from rag_cluster.models.tokenizer import Tokenizer, load_tokenizer
from rag_cluster.names import telling_name
from rag_cluster.schema import chunk_schema, conform

SEPARATOR = " > "


class Enricher:
    """Fills `context`: kind "heading" with name, title and path, kind "none" with nothing."""

    def __init__(self, config: Config) -> None:
        self.takes = self.gives = chunk_schema(config.metadata.fields)
        self._kind = config.enrich.kind
        self._most = config.enrich.max_tokens
        self._tokenizer = load_tokenizer(config.embed.model, config.embed.revision)

    def __call__(self, table: pa.Table) -> pa.Table:
        """The same chunks, with `context` filled."""
        known: dict[tuple[str, str, str], str] = {}
        contexts: list[str] = []
        columns = (table.column(name).to_pylist() for name in ("uri", "title", "section_path"))
        for uri, title, path in zip(*columns, strict=True):
            if self._kind == "none":
                contexts.append("")
                continue
            key = (telling_name(uri or "", title or ""), title or "", path or "")
            if key not in known:
                known[key] = heading_context(*key, self._most, self._tokenizer)
            contexts.append(known[key])
        column = table.schema.get_field_index("context")
        filled = table.set_column(column, "context", pa.array(contexts, type=pa.string()))
        return conform(filled, self.gives)


def heading_context(name: str, title: str, path: str, most: int, tokenizer: Tokenizer) -> str:
    """`name > title > path`, in at most `most` tokens; `name` is what the file's name adds, or "".

    A title that the path begins with is not said twice. What is too long keeps its two ends: the
    name or title says which document, the innermost heading which place. If those are still too
    long, the longer one is cut at a word until both fit.
    """
    parts = [part for part in (" ".join(p.split()) for p in path.split(SEPARATOR)) if part]
    title = " ".join(title.split())
    if title and (not parts or parts[0].casefold() != title.casefold()):
        parts.insert(0, title)
    if name:
        parts.insert(0, name)
    if len(parts) > 2 and _count(SEPARATOR.join(parts), tokenizer) > most:
        del parts[1:-1]
    if not parts or _count(SEPARATOR.join(parts), tokenizer) <= most:
        return SEPARATOR.join(parts)
    if len(parts) == 1:
        return _shorten(parts[0], most, tokenizer)
    first, last = parts
    room = most - _count(SEPARATOR.strip(), tokenizer)
    place = _shorten(last, max(room // 2, room - _count(first, tokenizer)), tokenizer)
    name = _shorten(first, room - _count(place, tokenizer), tokenizer)
    return SEPARATOR.join(part for part in (name, place) if part)


def _count(text: str, tokenizer: Tokenizer) -> int:
    return tokenizer.count([text])[0]


def _shorten(text: str, most: int, tokenizer: Tokenizer) -> str:
    """The beginning of the text, up to a word where it can be, in at most `most` tokens."""
    spans = tokenizer.spans(text)
    if len(spans) <= most:
        return text
    words = [index + 1 for index, character in enumerate(text) if character == " "]
    end = spans[most][0]
    while end > 0:
        index = bisect_right(words, end) - 1
        cut = text[: words[index] if index >= 0 else end].rstrip()
        if _count(cut, tokenizer) <= most:
            return cut
        end = len(cut) - 1
    return ""
