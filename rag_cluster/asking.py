"""The stages around a language model in the batch pipeline: DOCUMENT -> PROMPT -> GENERATED.

`Prompts` makes what is to be asked and leaves out what was answered before, `Asker` asks (vLLM has
its own way, see `generation`), and `KeepGenerated` writes the answers down.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.compute as pc

from rag_cluster.chunk.proposition import Propositions
from rag_cluster.config import Config
from rag_cluster.enrich.contextual import Contextual
from rag_cluster.errors import ModelError, RefusedError, ServiceError
from rag_cluster.generated import FOLDER, Asked, Generated, prompt_hash
from rag_cluster.models.llm import load_llm
from rag_cluster.models.ports import Completion, Message, Request
from rag_cluster.models.prompting import Prompting
from rag_cluster.models.structured import complete_json, dump_json
from rag_cluster.schema import GENERATED, PROMPT, conform, rows_to_table
from rag_cluster.work import write_parts

Row = dict[str, Any]
# Columns of PROMPT that GENERATED has too.
CARRIED = ("prompt_hash", "chunk_id", "doc_id", "dropped_tokens")


# A document (row of DOCUMENT) and its chunks (rows of CHUNK) to what is asked.
Maker = Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], Sequence[Asked]]


def maker(config: Config, prompting: Prompting) -> Maker:
    """What makes the requests for what `config.writes`. Raises ConfigError of a small window."""
    return (Propositions if config.writes == "facts" else Contextual)(config, prompting)


class Prompts:
    """Makes what is to be asked of documents: DOCUMENT -> PROMPT.

    `chunk` cuts the documents, `make` makes the requests of one, `model` is what `describe` says of
    the model. What `known` has is not asked again: it is written to the run's folder `work` at
    once, so that the run's files have all that its documents need.
    """

    def __init__(
        self,
        config: Config,
        *,
        chunk: Callable[[pa.Table], pa.Table],
        make: Callable[[Prompting], Maker],
        model: Mapping[str, Any],
        known: Generated,
        work: Path,
    ) -> None:
        self._chunk = chunk
        self._prompting = Prompting(config)
        self._make = make(self._prompting)
        self._model = model
        self._known = known
        self._keep = KeepGenerated(work, config.index.shards)
        self._tokens = config.llm.engine == "vllm"

    def __call__(self, table: pa.Table) -> pa.Table:
        """The prompts of a table of DOCUMENT, document by document, in the order of the chunks."""
        chunks: dict[str, list[Row]] = defaultdict(list)
        for row in self._chunk(table).to_pylist():
            chunks[row["doc_id"]].append(row)
        known = self._known.by_prompt(chunks)
        held, rows = [], []
        for document in table.to_pylist():
            doc_id = document["doc_id"]
            for asked in self._make(document, chunks.pop(doc_id, [])):
                name = prompt_hash(asked.request, self._model)
                own = {
                    "prompt_hash": name,
                    "chunk_id": asked.chunk_id,
                    "doc_id": doc_id,
                    "dropped_tokens": asked.dropped,
                }
                if name in known:
                    held.append(known[name] | own)
                else:
                    rows.append(self._row(asked.request) | own)
        if held:
            self._keep(pa.Table.from_pylist(held, GENERATED))
        return rows_to_table(rows, PROMPT)

    def _row(self, request: Request) -> Row:
        schema = request.json_schema
        row: Row = {
            "max_tokens": request.max_tokens,
            "json_schema": None if schema is None else json.dumps(schema),
        }
        if self._tokens and self._prompting.local is not None:
            return row | {"tokens": self._prompting.local.encode(request.messages)}
        return row | {"messages": [dataclasses.asdict(message) for message in request.messages]}


class Asker:
    """Asks a language model of requests, several at a time: PROMPT -> GENERATED.

    A request that fails is a row with an error. Where the model's server refuses (a wrong key, no
    such model) or answers no request of a whole table, ServiceError is raised.
    """

    takes = PROMPT
    gives = GENERATED

    def __init__(self, config: Config, model: Mapping[str, Any]) -> None:
        self._config = config
        self._model = model
        self._llm = load_llm(config.llm)
        # One loop for all tables: connections live in it.
        self._loop = asyncio.new_event_loop()

    def __call__(self, table: pa.Table) -> pa.Table:
        """The answers, in the order of the prompts."""
        rows = table.to_pylist()
        answers = self._loop.run_until_complete(self._answers(rows))
        lost = [answer for answer in answers if isinstance(answer, ServiceError)]
        if lost and len(lost) == len(answers) > 1:
            raise ServiceError(f"none of {len(answers)} requests was answered: {lost[-1]}")
        made = [self._row(row, answer) for row, answer in zip(rows, answers, strict=True)]
        return rows_to_table(made, GENERATED)

    async def _answers(self, rows: Sequence[Row]) -> list[Completion | Exception]:
        return await asyncio.gather(*(self._answer(row) for row in rows))

    async def _answer(self, row: Row) -> Completion | Exception:
        schema = None if row["json_schema"] is None else json.loads(row["json_schema"])
        request = Request(
            messages=tuple(Message(**message) for message in row["messages"]),
            max_tokens=row["max_tokens"],
            temperature=self._config.llm.temperature,
            json_schema=schema,
        )
        try:
            if schema is None:
                return await self._llm.generate(request)
            read = functools.partial(fitting, schema=schema)
            found, completion = await complete_json(self._llm, request, read, self._config.prompts)
            return dataclasses.replace(completion, text=dump_json(found))
        except RefusedError:
            raise
        except (ModelError, ServiceError) as error:
            return error

    def _row(self, row: Row, answer: Completion | Exception) -> Row:
        named = {name: row[name] for name in CARRIED}
        named |= {name: self._model[name] for name in ("model", "revision")}
        if isinstance(answer, Exception):
            return named | {"error": str(answer)}
        return named | {
            "text": answer.text,
            "prompt_tokens": answer.prompt_tokens,
            "cached_tokens": answer.cached_tokens,
            "completion_tokens": answer.completion_tokens,
        }


def fitting(found: Any, schema: Mapping[str, Any]) -> Any:
    """The JSON value itself. Raises ValueError where it does not keep to the schema."""
    try:
        jsonschema.validate(found, schema)
    except jsonschema.ValidationError as error:
        raise ValueError(f"{error.json_path}: {error.message}") from None
    return found


class KeepGenerated:
    """Writes answers to the run's folder; gives on only the counts."""

    GIVES = pa.schema(
        [(name, pa.int64()) for name in
         ("answers", "failed", "dropped_tokens", "prompt_tokens", "cached_tokens",
          "completion_tokens")]
    )  # fmt: skip

    def __init__(self, work: Path, shards: int) -> None:
        self._folder = work / FOLDER
        self._shards = shards

    def __call__(self, table: pa.Table) -> pa.Table:
        """A table of one row: how many answers there were, how many failed, and their tokens."""
        table = conform(table, GENERATED)
        write_parts(table, self._folder, self._shards)
        counts = {"answers": table.num_rows, "failed": table.num_rows - _given(table["text"])}
        for name in self.GIVES.names[2:]:
            counts[name] = pc.sum(table[name]).as_py() or 0
        return pa.Table.from_pylist([counts], self.GIVES)


def _given(column: pa.ChunkedArray) -> int:
    given: int = len(column) - column.null_count
    return given
