"""The FastAPI application."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serve.api import chat, documents, health, models, search
from serve.api.errors import RESPONSES, ApiError, install
from serve.api.service import Service


def create_app(service: Service) -> FastAPI:
    """The API over a service's backend."""
    app = FastAPI(title="rag-cluster", version=version("rag-cluster"), docs_url="/docs")
    app.state.service = service
    install(app)
    for module in (search, chat, models, documents):
        app.include_router(module.router, responses=RESPONSES)
    app.include_router(health.router)
    app.add_middleware(BodyLimit, most=service.config.service.limits.body_kb * 1024)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]
    return app


class BodyLimit:
    """Refuses bodies above a size before they are read whole."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, whose body may not be longer than the limit."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "0")
        if length.isdigit() and int(length) > self._most:
            await self._too_large().reply()(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._most:
                raise self._too_large()
            return message

        await self._app(scope, counted, send)

    def _too_large(self) -> ApiError:
        message = f"the body is larger than {self._most // 1024:,} KiB"
        return ApiError(413, "body_too_large", message)


def _described(app: FastAPI) -> dict[str, Any]:
    """OpenAPI's description; what FastAPI would answer to invalid bodies is told as it is here."""
    if app.openapi_schema is None:
        app.openapi_schema = get_openapi(
            title=app.title, version=app.version, routes=app.routes,
            description="Cited answers and passages from a collection.",
        )  # fmt: skip
        for methods in app.openapi_schema["paths"].values():
            for operation in methods.values():
                operation["responses"].pop("422", None)
    return app.openapi_schema
