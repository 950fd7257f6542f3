"""Services that the tests of the API share: one for everybody, one with keys of two tenants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from api_service import ACME, FIELDS, GLOBEX, Running, running, write_tenants
from small_corpus import FAKE


@pytest.fixture(scope="session")
def tenants(tmp_path_factory: pytest.TempPathFactory, ray_session: None) -> Path:
    """A collection of two tenants' documents."""
    from rag_cluster import config, pipeline

    folder = tmp_path_factory.mktemp("tenants")
    source = write_tenants(folder / "source")
    pipeline.ingest([str(source)], folder / "collection", config.load(None, [*FAKE, FIELDS]))
    return folder / "collection"


@pytest.fixture(scope="session")
def service(tenants: Path) -> Iterator[Running]:
    """The service for everybody on this machine."""
    settings = ("service.limits.transforms=[none, feedback]", "service.limits.deadline_ms=20000",
                "service.limits.rerankers=[none, late_interaction]")  # fmt: skip
    with running(tenants, *settings) as found:
        yield found


@pytest.fixture(scope="session")
def client(service: Running) -> Iterator[httpx.Client]:
    with service.client() as found:
        yield found


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Keys by name; `file` is where their hashes are."""
    from serve.key_writing import add_key

    file = tmp_path_factory.mktemp("keys") / "keys.yaml"
    made = {"acme": add_key(file, "acme", ACME), "globex": add_key(file, "globex", GLOBEX)}
    return made | {"admin": add_key(file, "admin"), "file": str(file)}


@pytest.fixture(scope="session")
def keyed(tenants: Path, keys: dict[str, str]) -> Iterator[Running]:
    """The service with keys."""
    with running(tenants, f"service.keys={keys['file']}",
                 "service.limits.transforms=[none, feedback]") as found:  # fmt: skip
        yield found
