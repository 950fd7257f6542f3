"""Steps on Ray whose workers cannot start or cannot work."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

from rag_cluster import cluster
from rag_cluster.config import Config
from rag_cluster.errors import IngestError, ModelError
from rag_cluster.progress import Progress
from rag_cluster.schema import FILE, rows_to_table
from rag_cluster.steps import Stage, Step, source, through

pytestmark = pytest.mark.usefixtures("ray_session")

FILES = rows_to_table([{"uri": f"{n}.txt", "size": 1} for n in range(8)], FILE)


def run(step: Step) -> None:
    data = through(source(FILES), [step], Config(), Progress.start(FILES))
    with cluster.explained(Path("collection")):
        for _ in data.iter_batches(batch_size=None):
            pass


def test_an_actor_that_cannot_load_its_model_fails_the_job_at_once() -> None:
    def no_model(config: Config) -> Stage:
        raise ModelError("the model is not on this node")

    step = Step("embed", no_model, FILE, FILE, 2, 0.5, workers=(1, 1))
    start = time.monotonic()
    with pytest.raises(ModelError, match="the model is not on this node"):
        run(step)
    assert time.monotonic() - start < 120


def test_a_stage_that_breaks_is_named_with_its_documents() -> None:
    def breaks(config: Config) -> Stage:
        def stage(table: pa.Table) -> pa.Table:
            raise ZeroDivisionError("by nothing")

        return stage

    with pytest.raises(IngestError, match=r"step 'chunk' failed on .*\.txt.*ZeroDivisionError"):
        run(Step("chunk", breaks, FILE, FILE, 2, 0.5))
