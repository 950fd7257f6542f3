"""What answers HTTP in each replica of the ingress: the API, over handles to the other deployments.

It stands apart from `serve.deployments`, so that their replicas need not load the API.
"""

from __future__ import annotations

from fastapi import FastAPI
from ray import serve
from ray.serve.handle import DeploymentHandle

from rag_cluster.config import Config
from serve.api import create_app
from serve.api.service import Service
from serve.backend import Backend
from serve.handles import EncoderHandle, GeneratorHandle, RerankerHandle, RetrieverHandle
from serve.keys import keys_of
from serve.metrics import RayMeters
from serve.observe import Observer


@serve.ingress()
class Http:
    """The API over handles to the other deployments."""

    def __init__(
        self,
        config: Config,
        retriever: DeploymentHandle,
        encoder: DeploymentHandle,
        reranker: DeploymentHandle,
        generator: DeploymentHandle,
    ) -> None:
        backend = Backend(
            config,
            RetrieverHandle(retriever),
            EncoderHandle(encoder),
            RerankerHandle(reranker),
            GeneratorHandle(generator),
        )
        replica = serve.get_replica_context().replica_tag
        observer = Observer.of(config, RayMeters(), replica)
        self._service = Service(backend, keys_of(config), observer)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return create_app(self._service)

    def __del__(self) -> None:
        if hasattr(self, "_service"):
            self._service.observer.close()
