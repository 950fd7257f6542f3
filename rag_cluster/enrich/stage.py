"""The stage that says where a chunk comes from: CHUNK -> CHUNK with `context`."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from rag_cluster.config import Config
from rag_cluster.enrich.contextual import read_context
from rag_cluster.enrich.heading import heading_context
from rag_cluster.generated import Generated
from rag_cluster.models.tokenizer import load_tokenizer
from rag_cluster.names import telling_name
from rag_cluster.schema import chunk_schema


class Enricher:
    """Fills `context` by `enrich.kind`: the heading line, what a language model wrote, or both.

    `generated` has what the model wrote. A chunk of which it wrote nothing usable keeps the heading
    line.
    """

    def __init__(self, config: Config, generated: Callable[[], Generated] | None = None) -> None:
        self.takes = self.gives = chunk_schema(config.metadata.fields)
        self._settings = config.enrich
        self._generated = None if generated is None else generated()
        self._tokenizer = load_tokenizer(config.embed.model, config.embed.revision)

    def __call__(self, table: pa.Table) -> pa.Table:
        """The same chunks with the same columns, of which `context` is filled."""
        contexts = [""] * table.num_rows
        if self._settings.kind != "none":
            contexts = self._headings(table)
        if self._settings.contextual and self._generated is not None:
            contexts = self._with_written(table, contexts, self._generated)
        column = table.schema.get_field_index("context")
        return table.set_column(column, "context", pa.array(contexts, type=pa.string()))

    def _headings(self, table: pa.Table) -> list[str]:
        known: dict[tuple[str, str, str], str] = {}
        contexts: list[str] = []
        columns = (table.column(name).to_pylist() for name in ("uri", "title", "section_path"))
        for uri, title, path in zip(*columns, strict=True):
            key = (telling_name(uri or "", title or ""), title or "", path or "")
            if key not in known:
                known[key] = heading_context(*key, self._settings.max_tokens, self._tokenizer)
            contexts.append(known[key])
        return contexts

    def _with_written(
        self, table: pa.Table, headings: list[str], generated: Generated
    ) -> list[str]:
        chunks = table.column("chunk_id").to_pylist()
        written = generated.texts(table.column("doc_id").to_pylist())
        both = self._settings.kind == "heading+contextual"
        contexts = []
        for chunk, heading in zip(chunks, headings, strict=True):
            text = read_context(written.get(chunk, ""), self._settings.context_tokens,
                                self._tokenizer)  # fmt: skip
            parts = [heading, text] if both or not text else [text]
            contexts.append("\n".join(part for part in parts if part))
        return contexts
