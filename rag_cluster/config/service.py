"""The section of the query service."""

from __future__ import annotations

from typing import Literal

from pydantic import field_validator, model_validator

from rag_cluster.config.search import RerankKind, TransformKind
from rag_cluster.config.section import Section, key


class Replicas(Section):
    """How many replicas a deployment has, what each takes, and how much it is given at a time."""

    min_replicas: int = key(1, "fewest replicas; 0 = none while nobody asks", ge=0)
    max_replicas: int = key(1, "most replicas", ge=1)
    target_ongoing_requests: float = key(
        4.0, "requests at work in a replica from which another one is started", gt=0
    )
    max_ongoing_requests: int = key(16, "requests at work in a replica; others wait", ge=1)
    max_queued_requests: int = key(
        64, "requests that wait for a replica, of each caller; more get 503; -1 = no limit", ge=-1
    )
    cpus: float = key(0.2, "CPUs of a replica", ge=0)
    gpus: float = key(0.0, "GPUs of a replica, or a part of one", ge=0)

    @field_validator("max_queued_requests")
    @classmethod
    def _some_may_wait(cls, number: int) -> int:
        if number == 0:  # Ray Serve has no such queue
            raise ValueError("at least 1 request may wait; -1 is for no limit")
        return number

    @model_validator(mode="after")
    def _most_is_not_less(self) -> Replicas:
        if self.max_replicas < self.min_replicas:
            raise ValueError(
                f"max_replicas ({self.max_replicas}) is less than min_replicas "
                f"({self.min_replicas})"
            )
        return self


class Limits(Section):
    """What a request may ask for."""

    body_kb: int = key(256, "KiB of a request's body", ge=1)
    body_s: float = key(10.0, "seconds that a body may take to come", gt=0)
    query_chars: int = key(4000, "characters of a query or question", ge=1)
    filter_conditions: int = key(
        100, "conditions of a filter, combinations included: each is a look at all chunks", ge=1
    )
    top_k: int = key(100, "most hits", ge=1)
    max_tokens: int = key(2000, "most tokens of an answer", ge=1)
    deadline_ms: int = key(60_000, "milliseconds that a request may take, and its default", ge=1)
    texts: int = key(256, "texts of a request to rerank or embed", ge=1)
    transforms: list[TransformKind] = key(
        ["none"], "transforms that a request may choose, beside the configured one"
    )
    rerankers: list[RerankKind] = key(
        ["none"], "rerankers that a request may choose, beside the configured one"
    )


class QueryLog(Section):
    """One JSON line for every query."""

    folder: str | None = key(None, "where the lines are written; null = no log")
    text: bool = key(False, "whether the question's text is written")
    max_mb: int = key(64, "MiB of a file, after which another one is begun", ge=1)
    files: int = key(8, "files kept of each replica", ge=1)
    days: int | None = key(
        None,
        "days after which files are deleted, of replicas that are gone too; null = never",
        ge=1,
    )


class Service(Section):
    """The query service."""

    host: str = key("127.0.0.1", "address to listen at")
    port: int = key(8000, "port to listen at", ge=0, le=65535)
    keys: str | None = key(
        None, "file of API keys (rag-cluster keys), or env:NAME of a variable with its content"
    )
    allow_anonymous: bool = key(
        False, "listen beyond loopback without keys: everybody who reaches it may ask"
    )
    poll_s: float = key(5.0, "seconds between looks for a new version", gt=0)
    shard_groups: int = key(
        1, "deployments that the shards' indexes are divided among; 1 = all in the retriever",
        ge=1, le=1000,
    )  # fmt: skip
    page: bool = key(True, "whether the page for people is served at /")
    page_images: bool = key(True, "whether pages of PDF sources are shown as images")
    ingress: Replicas = key(
        Replicas(
            max_ongoing_requests=24, max_queued_requests=32, cpus=0.1, target_ongoing_requests=16
        ),
        "the HTTP API; what it takes is what is at work at all, and what cannot wait gets 503",
    )
    retriever: Replicas = key(
        Replicas(cpus=0.4, max_ongoing_requests=64), "searches an opened version"
    )
    group: Replicas = key(
        Replicas(cpus=0.4, max_ongoing_requests=64),
        "searches a group of shards, where there are groups",
    )
    encoder: Replicas = key(
        Replicas(cpus=0.5, max_ongoing_requests=64, target_ongoing_requests=16),
        "query to vector, several queries at a time",
    )
    reranker: Replicas = key(Replicas(cpus=0.3, max_ongoing_requests=8), "scores passages")
    generator: Replicas = key(
        Replicas(cpus=0.1, max_ongoing_requests=8, max_queued_requests=8), "writes answers"
    )
    limits: Limits = key(Limits(), "what a request may ask for")
    log: QueryLog = key(QueryLog(), "one JSON line for every query")
    otlp: str | None = key(
        None, "OpenTelemetry endpoint for traces, such as http://host:4318", pattern=r"^https?://."
    )
    log_level: Literal["debug", "info", "warning", "error"] = key("warning", "of the servers' logs")
