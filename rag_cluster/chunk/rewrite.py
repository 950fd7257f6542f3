"""The stage that rewrites chunks as facts: DOCUMENT -> CHUNK, with rows of kind `proposition`.

The second pass of an ingest: what the language model wrote in the first is taken from its files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rag_cluster.chunk.proposition import is_rewritten, read_facts
from rag_cluster.chunk.stage import Chunker, chunker_fingerprint
from rag_cluster.config import Config
from rag_cluster.generated import Generated
from rag_cluster.models.tokenizer import Tokenizer, load_tokenizer
from rag_cluster.schema import DOCUMENT, chunk_id, chunk_schema, rows_to_table

Row = dict[str, Any]


class Rewriter:
    """Cuts documents into chunks, and puts behind each the facts that were written for it.

    Such a chunk is not searched itself: it stands as the parent of its facts, which have its span,
    pages and section. One of which there is no fact stays as it was cut.
    """

    takes = DOCUMENT

    def __init__(self, config: Config, generated: Callable[[], Generated]) -> None:
        self._chunk = Chunker(config)
        self._generated = generated()
        self._fingerprint = chunker_fingerprint(config)
        self._tokenizer = load_tokenizer(config.embed.model, config.embed.revision)
        self.gives = chunk_schema(config.metadata.fields)

    def __call__(self, table: pa.Table) -> pa.Table:
        """The chunks and facts of a table of DOCUMENT, in the documents' order."""
        written = self._generated.texts(table["doc_id"].to_pylist())
        rows: list[Row] = []
        for number in range(table.num_rows):
            chunks = self._chunk(table.slice(number, 1)).to_pylist()
            rows += with_facts(chunks, written, self._fingerprint, self._tokenizer)
        return rows_to_table(rows, self.gives)


def with_facts(
    chunks: Sequence[Row], written: Mapping[str, str], chunker: str, tokenizer: Tokenizer
) -> list[Row]:
    """A document's chunks (rows of CHUNK, as they were cut), each with its facts behind it.

    `written` are the model's answers by chunk_id, `chunker` is the chunker's fingerprint.
    """
    rows: list[Row] = []
    for chunk in chunks:
        facts = read_facts(written.get(chunk["chunk_id"], "")) if is_rewritten(chunk) else []
        rows.append(chunk | {"searchable": False} if facts else chunk)
        counts = tokenizer.count(facts)
        rows += [_fact(chunk, *one, chunker) for one in zip(facts, counts, strict=True)]
    return [row | {"ordinal": i, "siblings": len(rows)} for i, row in enumerate(rows)]


def _fact(chunk: Row, text: str, tokens: int, chunker: str) -> Row:
    kind = "proposition"
    name = chunk_id(chunk["doc_id"], chunk["start"], chunk["end"], kind, chunker, text)
    return chunk | {
        "chunk_id": name,
        "kind": kind,
        "parent_id": chunk["chunk_id"],
        "text": text,
        "tokens": tokens,
    }
