"""The FastAPI application."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from serve.api import chat, documents, health, metrics, models, page, search
from serve.api.errors import RESPONSES, install, responses
from serve.api.incoming import Bodies
from serve.api.places import Gate, Places
from serve.api.service import SENT, Service


def create_app(service: Service, places: Places | None = None) -> FastAPI:
    """The API over a service's backend.

    `places` bound the requests at work, where nothing before the app does. A request takes one when
    its body is there, so that slow bodies hold none.

    It is described at /openapi.json. FastAPI's pages that show this are off: they load their
    scripts from another host.
    """
    app = FastAPI(
        title="rag-cluster", version=version("rag-cluster"), docs_url=None, redoc_url=None
    )
    app.state.service = service
    install(app)
    for module in (search, chat, models, documents):
        app.include_router(module.router, responses=RESPONSES)
    app.include_router(health.router)
    app.include_router(metrics.router, responses=responses(401, 403, 429), dependencies=SENT)
    if service.config.service.page:
        app.include_router(page.router)
    limits = service.config.service.limits
    if places is not None:
        app.add_middleware(Gate, places=places)
    app.add_middleware(Bodies, most=limits.body_kb * 1024, seconds=limits.body_s)
    app.add_middleware(metrics.Watched, observer=service.observer)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """OpenAPI's description, made once, with the limits of this service.

    What FastAPI would answer to invalid bodies is not there: errors have one shape here. Keys are
    described where the service has them.
    """
    if app.openapi_schema is None:
        told = get_openapi(
            title=app.title, version=app.version, routes=app.routes,
            description="Cited answers and passages from a collection.",
        )  # fmt: skip
        for methods in told["paths"].values():
            for operation in methods.values():
                operation["responses"].pop("422", None)
                if app.state.service.keys is None:
                    operation.pop("security", None)
        for name in ("HTTPValidationError", "ValidationError"):
            told["components"]["schemas"].pop(name, None)
        _limit(told["components"]["schemas"], app.state.service)
        app.openapi_schema = told
    return app.openapi_schema


def _limit(schemas: dict[str, Any], service: Service) -> None:
    """Writes into the bodies of requests what `Service.options` allows."""
    limits, own = service.config.service.limits, service.config
    known: dict[str, dict[str, Any]] = {
        "top_k": {"maximum": limits.top_k},
        "max_tokens": {"maximum": limits.max_tokens},
        "max_completion_tokens": {"maximum": limits.max_tokens},
        "deadline_ms": {"maximum": limits.deadline_ms},
        "query": {"maxLength": limits.query_chars},
        "question": {"maxLength": limits.query_chars},
        "documents": {"maxItems": limits.texts},
        "transform": {"enum": service.transforms},
        "rerank": {"enum": service.rerankers},
        "channels": {"items": {"type": "string", "enum": list(own.retrieve.channels)}},
    }
    for name in (
        "SearchRequest",
        "AskRequest",
        "ChatRequest",
        "RerankRequest",
        "EmbeddingsRequest",
    ):
        for field, told in schemas[name]["properties"].items():
            # Of what may be null, the first of two kinds is the other one.
            told.get("anyOf", [told])[0].update(known.get(field, {}))
