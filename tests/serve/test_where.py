"""Where `rag-cluster serve` runs: in one process, or on Ray, and who says so."""

from __future__ import annotations

import pytest

from rag_cluster import config
from rag_cluster.errors import ConfigError
from serve.where import scaled, why_on_ray


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def test_the_defaults_run_in_one_process() -> None:
    assert why_on_ray(config.load()) is None


@pytest.mark.parametrize(
    "setting",
    [
        "service.retriever.max_replicas=2",
        "service.reranker.min_replicas=0",
        "service.encoder.gpus=0.25",
        "service.shard_groups=2",
        "resources.address=ray://head:10001",
    ],
)
def test_what_one_process_is_not_runs_on_ray(setting: str) -> None:
    assert why_on_ray(config.load(None, [setting])) == setting


def test_engines_of_vllm_run_on_ray() -> None:
    chosen = config.load(None, ["generate.kind=vllm", "generate.model=x"])
    assert why_on_ray(chosen) == "generate.kind=vllm"


def test_a_cluster_in_the_environment_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert why_on_ray(config.load()) == "resources.address=10.0.0.1:6379"


def test_what_is_wanted_goes_before() -> None:
    assert why_on_ray(config.load(), wanted=True) == "--ray"
    two = config.load(None, ["service.retriever.max_replicas=2"])
    assert why_on_ray(two, wanted=False) is None
    assert scaled(two) == "service.retriever.max_replicas=2"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["generate.kind=vllm", "generate.model=x"], "generate.kind=vllm needs Ray"),
        (["service.shard_groups=2"], "service.shard_groups=2 needs Ray"),
    ],
)
def test_one_process_is_refused_what_it_cannot_do(settings: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        why_on_ray(config.load(None, settings), wanted=False)
