"""Where a service of one machine runs: in one process, or on Ray."""

from __future__ import annotations

import os

from rag_cluster.config import Config, Replicas
from rag_cluster.errors import ConfigError

# What one process is: a replica of each part, without a share of a GPU for each.
ONE = (("min_replicas", 1), ("max_replicas", 1), ("gpus", 0.0))


def why_on_ray(config: Config, *, wanted: bool | None = None) -> str | None:
    """Why the service is to run on Ray: who starts it wants that, or a setting does.

    None where it is to run in one process. `wanted` = None lets the configuration say. Raises
    ConfigError where one process is wanted and cannot do what is configured.
    """
    needs = _only_there(config)
    if wanted is False:
        if needs is not None:
            raise ConfigError(f"{needs} needs Ray: serve without --one-process")
        return None
    return "--ray" if wanted else needs or scaled(config)


def scaled(config: Config) -> str | None:
    """What has no effect in one process, as `key=value`: a cluster, replicas, GPUs for parts."""
    if address := config.resources.address or os.environ.get("RAY_ADDRESS"):
        return f"resources.address={address}"
    for part, replicas in config.service:
        if isinstance(replicas, Replicas):
            for name, one in ONE:
                if (value := getattr(replicas, name)) != one:
                    return f"service.{part}.{name}={value:g}"
    return None


def _only_there(config: Config) -> str | None:
    """What one process cannot do, as `key=value`."""
    if config.generate.kind == "vllm":
        return "generate.kind=vllm"
    if config.service.shard_groups > 1:
        return f"service.shard_groups={config.service.shard_groups}"
    return None
