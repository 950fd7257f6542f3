"""What a language model wrote, kept by document: nothing is asked twice.

    work/<run>/generated/<shard>/*.parquet        rows of GENERATED that a run has so far
    versions/<version>/generated/shard-*.parquet  those of the version's documents

A row is found by its request (`prompt_hash`), when documents are read again under other settings,
and by its chunk, when the chunks are enriched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rag_cluster.config import Config
from rag_cluster.hashes import as_words, digest
from rag_cluster.models.ports import Request
from rag_cluster.schema import GENERATED
from rag_cluster.storage import files

FOLDER = "generated"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for a chunk. `dropped` tokens of the document had no room in the window."""

    chunk_id: str
    request: Request
    dropped: int = 0


def prompt_hash(request: Request, model: Mapping[str, Any]) -> bytes:
    """16 bytes that name a request to a model (of `describe`): equal ones, equal answers."""
    parts = [str(model["model"]), str(model["revision"]), str(request.max_tokens),
             str(request.temperature), repr(request.stop), repr(request.json_schema)]  # fmt: skip
    turns = [part for message in request.messages for part in (message.role, message.content)]
    return digest(*parts, *turns)


def describe(config: Config) -> dict[str, Any]:
    """The language model as it stands beside what it wrote: engine, model, revision.

    The revision of a local model is the hub's commit or a hash of its files.
    """
    from rag_cluster.models.encoder import weights_revision
    from rag_cluster.models.locate import resolve_model

    llm = config.llm
    revision = llm.revision
    if llm.engine in ("vllm", "transformers") and llm.model is not None:
        revision = weights_revision(resolve_model(llm.model, llm.revision))
    return {"engine": llm.engine, "model": llm.model or llm.engine, "revision": revision or ""}


class Generated:
    """Where the generated texts of documents are: an index over files, read when asked.

    Holds 24 bytes for each document of each file, so it may travel to every worker.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        words, places = [], []
        for number, path in enumerate(self._paths):
            for group in range(files.row_groups(path)):
                ids = set(files.read_row_group(path, group, ["doc_id"])["doc_id"].to_pylist())
                words.append(as_words([digest(one) for one in sorted(ids)])[:, 0])
                places.append(np.tile([number, group], (len(ids), 1)))
        first = np.concatenate([np.empty(0, np.uint64), *words])
        order = np.argsort(first, kind="stable")
        self._words = first[order]
        self._places = np.concatenate([np.empty((0, 2), np.int64), *places])[order]

    def rows(self, doc_ids: Iterable[str]) -> pa.Table:
        """The rows of documents, failed ones included."""
        wanted = sorted(set(doc_ids))
        hashes = as_words([digest(one) for one in wanted])[:, 0]
        spans = zip(
            np.searchsorted(self._words, hashes, "left"),
            np.searchsorted(self._words, hashes, "right"),
            strict=True,
        )
        found = sorted({tuple(place) for a, b in spans for place in self._places[a:b].tolist()})
        tables = [files.read_row_group(self._paths[number], group) for number, group in found]
        table = pa.concat_tables([GENERATED.empty_table(), *tables])
        return table.filter(pc.is_in(table["doc_id"], value_set=pa.array(wanted, pa.string())))

    def texts(self, doc_ids: Iterable[str]) -> dict[str, str]:
        """What was written for the chunks of documents, by chunk_id; failed ones are not there."""
        table = self.rows(doc_ids)
        pairs = zip(table["chunk_id"].to_pylist(), table["text"].to_pylist(), strict=True)
        return {chunk: text for chunk, text in pairs if text is not None}

    def by_prompt(self, doc_ids: Iterable[str]) -> dict[bytes, Row]:
        """The rows of documents that hold a text, by `prompt_hash`."""
        rows = self.rows(doc_ids).to_pylist()
        return {row["prompt_hash"]: row for row in rows if row["text"] is not None}


def merged(tables: Sequence[pa.Table]) -> pa.Table:
    """Each chunk's row once: one that holds a text where there is one, then the later table's."""
    rows: dict[str, Row] = {}
    for table in tables:
        for row in table.to_pylist():
            held = rows.get(row["chunk_id"])
            if held is None or row["text"] is not None or held["text"] is None:
                rows[row["chunk_id"]] = row
    ordered = sorted(rows.values(), key=lambda row: (row["doc_id"], row["chunk_id"]))
    return pa.Table.from_pylist(ordered, GENERATED)
