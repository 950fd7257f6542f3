"""How far an ingest is: counted by one small actor, read by the driver once a second.

The same actor knows which texts some worker has taken on to encode.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import ray
import ray.exceptions
from numpy.typing import NDArray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rag_cluster.hashes import Claimed, Words

Mask = NDArray[np.bool_]


@dataclass(slots=True)
class Count:
    """What one step did so far.

    `seconds` are the workers' own, added up; `encoded` the texts that a model was asked about.
    `nodes` has the rows by the node that worked on them, `began` the second of the run in which
    the step's first work began.
    """

    rows_in: int = 0
    rows_out: int = 0
    failed: int = 0
    seconds: float = 0.0
    encoded: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    began: float = 0.0


@dataclass(slots=True)
class Snapshot:
    """A moment of an ingest: of `files` (and bytes) in all, what each step has done."""

    files: int
    size: int
    elapsed: float
    steps: dict[str, Count] = field(default_factory=dict)

    def step(self, name: str) -> Count:
        """The count of a step; zeros before it began."""
        return self.steps.get(name, Count())

    @property
    def chunks_expected(self) -> float:
        """The number of chunks in all, by what the files gave so far."""
        parsed = self.step("parse").rows_in
        documents = max(1, self.step("keep").rows_in)
        seen = self.step("chunk")
        per_file = (self.step("parse").rows_out / max(1, parsed)) or 1.0
        per_document = seen.rows_out / max(1, seen.rows_in) if seen.rows_in else 0.0
        return max(seen.rows_out, self.files * per_file * per_document) if documents else 0.0

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the chunks embedded so far; None before there are any."""
        done = self.step("embed").rows_out
        if not done or self.chunks_expected <= 0:
            return None
        return max(0.0, self.since("embed") * (self.chunks_expected / done - 1.0))

    def since(self, name: str) -> float:
        """The seconds since a step began."""
        return max(1e-9, self.elapsed - self.step(name).began)

    def by_step(self) -> dict[str, dict[str, Any]]:
        """Rows, failures, worker seconds, rows per worker second and nodes, step by step."""
        return {
            name: {
                "rows_in": count.rows_in,
                "rows_out": count.rows_out,
                "failed": count.failed,
                "worker_seconds": round(count.seconds, 3),
                "rows_per_worker_second": _rate(count.rows_in, count.seconds),
                "rows_by_node": dict(count.nodes),
            }
            for name, count in self.steps.items()
        }


def _rate(rows: int, seconds: float) -> float:
    """Rows per second; 0 where no time was counted for them."""
    return round(rows / seconds, 1) if seconds else 0.0


class _Counter:
    def __init__(self, files: int, size: int) -> None:
        self.start = time.monotonic()
        self.files = files
        self.size = size
        self.steps: dict[str, Count] = {}
        self.claimed = Claimed()

    def claim(self, words: Words, batch: bytes) -> Mask:
        return self.claimed.claim(words, batch)

    def add(self, step: str, done: Count) -> None:
        began = time.monotonic() - self.start - done.seconds
        count = self.steps.setdefault(step, Count(began=max(0.0, began)))
        count.rows_in += done.rows_in
        count.rows_out += done.rows_out
        count.failed += done.failed
        count.seconds += done.seconds
        count.encoded += done.encoded
        count.nodes.update(done.nodes)

    def snapshot(self) -> Snapshot:
        return Snapshot(self.files, self.size, time.monotonic() - self.start, dict(self.steps))


class Progress:
    """A handle to the counter; it travels to workers with the step.

    As a context it ends the counter's process, which the workers' handles would keep alive.
    """

    def __init__(self, counter: Any, known: Snapshot) -> None:
        self._counter = counter
        self._known = known

    @classmethod
    def start(cls, files: pa.Table) -> Progress:
        """A new counter for the files."""
        size = pc.sum(files.column("size")).as_py() or 0
        here = ray.get_runtime_context().get_node_id()
        return cls(
            ray.remote(num_cpus=0)(_Counter)
            # On the driver's node: no other node's end takes the counts with it.
            .options(scheduling_strategy=NodeAffinitySchedulingStrategy(here, soft=True))
            .remote(files.num_rows, size),
            Snapshot(files.num_rows, size, 0.0),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        ray.kill(self._counter)

    def add(
        self,
        step: str,
        rows_in: int,
        rows_out: int,
        failed: int,
        seconds: float,
        encoded: int = 0,
    ) -> None:
        """Counts work that was done; it does not wait."""
        node = ray.get_runtime_context().get_node_id()
        done = Count(rows_in, rows_out, failed, seconds, encoded, Counter({node: rows_in}))
        self._counter.add.remote(step, done)

    def claim(self, words: Words, batch: bytes) -> Mask:
        """For each text hash (uint64 [n, 2]) whether the batch is the first to ask; bool [n].

        A lost answer costs no text: what nobody encoded is found when the plan has ended.
        """
        try:
            first: Mask = ray.get(self._counter.claim.remote(words, batch))
        except ray.exceptions.RayError:
            return np.ones(len(words), dtype=bool)
        return first

    def snapshot(self) -> Snapshot:
        """What was counted up to now; what was known last where the counter was lost."""
        try:
            self._known = ray.get(self._counter.snapshot.remote())
        except ray.exceptions.RayActorError:
            return self._known
        return self._known


class Watcher:
    """Calls `show` with a snapshot once a second while its context is open, and once at its end."""

    def __init__(self, progress: Progress, show: Callable[[Snapshot], None] | None) -> None:
        self._progress = progress
        self._show = show
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, args=[show], daemon=True)
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        if self._show is not None:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._done.set()
        if self._show is not None:
            self._thread.join(timeout=5)
            if kind is None and self._error is not None:
                raise self._error
            if kind is None:
                self._show(self._progress.snapshot())

    def _watch(self, show: Callable[[Snapshot], None]) -> None:
        while not self._done.wait(1.0):
            try:
                snapshot = self._progress.snapshot()
            except ray.exceptions.RayError:
                return
            try:
                show(snapshot)
            except Exception as error:  # noqa: BLE001 - it is raised where the work has ended
                self._error = error
                return
