"""Steps of a pipeline on Ray Data: a stage with its resources, and a dataset made of them."""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import ray
import ray.data

from rag_cluster.config import Config
from rag_cluster.errors import ConfigError, IngestError, RagClusterError
from rag_cluster.progress import Progress

MOST_BLOCKS = 1000

Value = TypeVar("Value")


class Stage(Protocol):
    """A table in, a table out."""

    def __call__(self, table: pa.Table) -> pa.Table:
        """The next table."""


@dataclass(frozen=True)
class Step:
    """A stage with its resources. `workers` is a range of actors, or None for stateless tasks.

    `run` names the run: what a task's process keeps for the next task is of that run alone.
    """

    name: str
    make: Callable[[Config], Stage]
    takes: pa.Schema
    gives: pa.Schema
    batch_size: int | None
    cpus: float
    gpus: float = 0.0
    workers: tuple[int, int] | None = None
    run: str = ""


def check(plan: Sequence[Step]) -> None:
    """Raises ConfigError where a step does not give what the next one takes."""
    for before, after in itertools.pairwise(plan):
        missing = [name for name in after.takes.names if name not in before.gives.names]
        if missing:
            raise ConfigError(
                f"step {after.name!r} takes {missing}, which step {before.name!r} does not give"
            )


def source(table: pa.Table) -> ray.data.Dataset:
    """A dataset of the rows of a table, in blocks small enough to be shared out."""
    rows = math.ceil(table.num_rows / MOST_BLOCKS)
    return ray.data.from_arrow([table.slice(i, rows) for i in range(0, table.num_rows, rows)])


def through(
    data: ray.data.Dataset, plan: Sequence[Step], config: Config, progress: Progress
) -> ray.data.Dataset:
    """The dataset through all steps of the plan; nothing runs until it is consumed."""
    for step in plan:
        options: dict[str, Any] = {
            "batch_size": step.batch_size,
            "batch_format": "pyarrow",
            "num_cpus": step.cpus,
        }
        if step.workers is None:
            task = functools.partial(run_task, step=step, config=config, progress=progress)
            data = data.map_batches(task, **options)
        else:
            data = data.map_batches(
                Actor,
                fn_constructor_args=(step, config, progress),
                num_gpus=step.gpus or None,
                compute=ray.data.ActorPoolStrategy(
                    min_size=step.workers[0], max_size=step.workers[1]
                ),
                **options,
            )
    return data


class Actor:
    """A worker process that makes its stage once and keeps it: a model, a child process."""

    def __init__(self, step: Step, config: Config, progress: Progress) -> None:
        self.step = step
        self.progress = progress
        self.stage = step.make(config)

    def __call__(self, table: pa.Table) -> pa.Table:
        """The stage's next table."""
        return _timed(self.step, self.stage, table, self.progress)


def run_task(table: pa.Table, step: Step, config: Config, progress: Progress) -> pa.Table:
    """A stateless step; what it loads stays in the worker process for the next task."""
    return _timed(step, _stage(step, config), table, progress)


_stages: dict[str, tuple[str, Stage]] = {}


def _stage(step: Step, config: Config) -> Stage:
    made_for = f"{step.run} {config.model_dump_json()}"
    if step.name not in _stages or _stages[step.name][0] != made_for:
        _stages[step.name] = (made_for, step.make(config))
    return _stages[step.name][1]


def _timed(step: Step, stage: Stage, table: pa.Table, progress: Progress) -> pa.Table:
    start = time.monotonic()
    try:
        result = stage(table)
    except RagClusterError:
        raise
    except Exception as error:
        raise IngestError(f"step {step.name!r} failed on {_names(table)}: {error!r}") from error
    failed = encoded = 0
    if step.name == "parse":
        failed = sum(status == "failed" for status in result.column("status").to_pylist())
    seconds = time.monotonic() - start
    if "vector" in result.column_names and "vector" not in table.column_names:
        own = result.filter(pc.is_valid(result.column("vector")))
        encoded = pc.count_distinct(own.column("text_hash")).as_py()
        if step.name != "embed":  # late chunking: chunks have vectors from where they are cut
            progress.add("embed", result.num_rows, result.num_rows, 0, 0.0, encoded)
            encoded = 0
    progress.add(step.name, table.num_rows, result.num_rows, failed, seconds, encoded)
    return result


def _names(table: pa.Table) -> str:
    uris = list(dict.fromkeys(table.column("uri").to_pylist()))
    return uris[0] if len(uris) == 1 else f"{len(uris)} documents from {uris[0]} to {uris[-1]}"


class Shared(Generic[Value]):
    """A large value that every worker process reads from its node's shared memory."""

    def __init__(self, value: Value) -> None:
        self._reference = ray.put(value)

    def __call__(self) -> Value:
        """The value."""
        value: Value = ray.get(self._reference)
        return value
