"""Fixtures of the whole suite: one Ray session, and a small corpus that was ingested once."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from ray_head import Cluster, started_head
from s3_server import environment, s3_server
from small_corpus import FAKE, write_corpus

# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """A Ray session that all tests share, so that each need not start one."""
    import logging
    import os

    import ray

    os.environ["RAY_BACKEND_LOG_LEVEL"] = "fatal"
    # A folder of its own: another Ray on this machine is not disturbed, and disturbs nothing.
    folder = tempfile.mkdtemp(prefix="ray-")
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
        _temp_dir=folder,
    )  # fmt: skip
    # Its notices come at any time, to standard output, where a test reads a command's JSON.
    ray._private.worker._worker_logs_enabled = False
    yield
    ray.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def head() -> Iterator[Cluster]:
    """A cluster that jobs and applications are submitted to, in a process of its own."""
    with started_head() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("source") / "corpus")


@pytest.fixture(scope="session")
def collection(corpus: Path, tmp_path_factory: pytest.TempPathFactory, ray_session: None) -> Path:
    """The corpus, ingested with a fake encoder and declared metadata."""
    from rag_cluster import config, pipeline

    path = tmp_path_factory.mktemp("made") / "collection"
    fields = "metadata.fields={year: int, kind_of: keyword}"
    pipeline.ingest([str(corpus)], path, config.load(None, [*FAKE, fields]))
    return path


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An S3 server, which this process and those that it starts find by their environment."""
    with s3_server() as url, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(url, tmp_path_factory.mktemp("cache")).items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def bucket(s3: None) -> str:
    """The url of a new bucket."""
    from rag_cluster.storage.places import file_system

    name = f"bucket-{uuid.uuid4().hex}"
    file_system(f"s3://{name}").mkdir(name)
    return f"s3://{name}"
