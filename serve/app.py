"""The application of Ray Serve.

serve run serve.app:build collection=PATH config=configs/local.yaml
serve deploy serve/config.yaml
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, RequestRouterConfig
from ray.serve.deployment import Deployment

from rag_cluster.config import Config, Replicas, Service, read_tree
from rag_cluster.errors import ConfigError
from serve.backend import service_config
from serve.deployments import Encoder, GeneratorReplica, Reranker, RetrieverReplica
from serve.groups import Group
from serve.ingress import Http
from serve.keys import keys_of

RETRY_AFTER_S = 1
DOWNSCALE_S = 300.0
# The longest that a waiting request looks away from a replica that was full: Ray's half a second
# leaves places empty while requests wait.
BACKOFF_S = 0.05


def build(args: Mapping[str, str]) -> Application:
    """The application for a collection.

    `args` are `collection` (a path or s3:// url), `config` (a YAML file, read here and nowhere
    else), and any `key.path` of the configuration with its value. Raises ConfigError and
    CollectionError.
    """
    given = dict(args)
    collection = given.pop("collection", None)
    if collection is None:
        raise ConfigError("name the collection: serve run serve.app:build collection=PATH")
    path = given.pop("config", None)
    settings = read_tree(path, [f"{name}={value}" for name, value in given.items()])
    return application(collection, settings)


def application(collection: str, settings: Mapping[str, Any]) -> Application:
    """The application for a collection, with a tree of settings over what made it."""
    config = service_config(collection, settings)
    keys_of(config)  # raises where they cannot be used
    service = config.service
    encoder = deployed(Encoder, "Encoder", service.encoder).bind(config)
    reranker = deployed(Reranker, "Reranker", _used(config)).bind(config)
    groups = _groups(collection, settings, service)
    retriever = deployed(RetrieverReplica, "Retriever", service.retriever).bind(
        collection, settings, service.poll_s, encoder, reranker, *groups
    )
    generator = _generator(config, encoder)
    return deployed(Http, "Ingress", service.ingress).bind(
        config, retriever, encoder, reranker, generator
    )


def _groups(collection: str, settings: Mapping[str, Any], service: Service) -> list[Application]:
    """Deployments of the shards' indexes, where they are not all in the retriever."""
    number = service.shard_groups
    return [
        deployed(Group, f"Shards{at}", service.group).bind(collection, settings, at, number)
        for at in range(number if number > 1 else 0)
    ]


def _generator(config: Config, encoder: Application) -> Application:
    replicas = config.service.generator
    if config.generate.kind != "vllm":
        return deployed(GeneratorReplica, "Generator", replicas).bind(config, encoder)
    from serve.vllm import vllm_server

    # What writes the prompts waits for the engines, which take the resources.
    waiting = replicas.model_copy(
        update={"cpus": 0.1, "gpus": 0.0, "min_replicas": 1,
                "max_ongoing_requests": replicas.max_ongoing_requests * replicas.max_replicas}
    )  # fmt: skip
    return deployed(GeneratorReplica, "Generator", waiting).bind(
        config, encoder, vllm_server(config)
    )


def deployed(what: type, name: str, replicas: Replicas) -> Deployment:
    """A class as a deployment with its replicas, resources and queue."""
    return serve.deployment(
        what,
        name=name,
        ray_actor_options={"num_cpus": replicas.cpus, "num_gpus": replicas.gpus},
        max_ongoing_requests=replicas.max_ongoing_requests,
        max_queued_requests=replicas.max_queued_requests,
        request_router_config=RequestRouterConfig(max_backoff_s=BACKOFF_S),
        backpressure_config={"status_code": 503, "retry_after_s": RETRY_AFTER_S},
        autoscaling_config=AutoscalingConfig(
            min_replicas=replicas.min_replicas,
            max_replicas=replicas.max_replicas,
            target_ongoing_requests=replicas.target_ongoing_requests,
            downscale_delay_s=DOWNSCALE_S,
        ),
        health_check_period_s=5,
        health_check_timeout_s=15,
        max_constructor_retry_count=3,
    )


def _used(config: Config) -> Replicas:
    """No replica of the reranker waits where the configuration asks it nothing."""
    own = config.service.reranker
    loaded = [stage for stage in config.rerank.used if not stage.asks and stage.model is not None]
    return own if loaded else own.model_copy(update={"min_replicas": 0})
