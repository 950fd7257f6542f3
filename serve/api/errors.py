"""Every error in one shape, which is the one that OpenAI's clients read.

{"error": {"message": "...", "type": "invalid_request_error", "code": "...", "param": null}}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from rag_cluster.errors import (
    CollectionError,
    ModelError,
    RagClusterError,
    ServiceError,
    SourceError,
    UsageError,
)
from serve.retriever import DeadlineError

log = logging.getLogger(__name__)

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    500: "api_error",
    502: "upstream_error",
    503: "overloaded_error",
    504: "deadline_error",
}


class ErrorBody(BaseModel):
    """What went wrong."""

    message: str
    type: str
    code: str
    param: str | None = None


class ErrorReply(BaseModel):
    """The body of every reply that is no success."""

    error: ErrorBody


class ApiError(Exception):
    """An error with its status and code."""

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status = status
        self.body = ErrorBody(message=message, type=TYPES[status], code=code, param=param)
        self.headers = dict(headers or {})

    def reply(self) -> JSONResponse:
        """The response."""
        body = ErrorReply(error=self.body).model_dump()
        return JSONResponse(body, self.status, headers=self.headers)


def overloaded(what: str) -> ApiError:
    """503: the caller may try again."""
    message = f"{what} has more to do than it may queue: try again in a second"
    return ApiError(503, "overloaded", message, headers={"Retry-After": "1"})


def explain(error: BaseException) -> ApiError:
    """The reply to any error. What is not foreseen is logged, and not told."""
    match error:
        case ApiError():
            return error
        case DeadlineError():
            message = f"the request's deadline passed in the stage {error.stage!r}"
            return ApiError(504, "deadline_exceeded", message)
        case CollectionError():
            return ApiError(503, "collection_unavailable", str(error))
        case SourceError():
            return ApiError(404, "source_unavailable", str(error))
        case UsageError():
            return ApiError(400, "invalid_request", str(error))
        case ServiceError() | ModelError():
            return ApiError(502, "model_failed", str(error))
        case RagClusterError():
            return ApiError(500, "internal_error", str(error))
        case RequestValidationError():
            return _invalid(error)
        case HTTPException():
            return _http(error)
    if type(error).__name__ == "BackPressureError":  # of Ray Serve, which may not be installed
        return overloaded("this part of the service")
    log.error("unforeseen error", exc_info=error)
    return ApiError(500, "internal_error", "the service failed; its log says why")


def install(app: FastAPI) -> None:
    """Makes all errors of an app take the one shape."""

    async def reply(_: Request, error: Exception) -> JSONResponse:
        return explain(error).reply()

    for kind in (ApiError, DeadlineError, RagClusterError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, reply)
    app.add_exception_handler(Exception, reply)


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorReply, "description": kind.replace("_", " ")}
    for status, kind in TYPES.items()
    if status not in (403, 405)
}


def _invalid(error: RequestValidationError) -> ApiError:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    message = str(first["msg"]).removeprefix("Value error, ")
    return ApiError(
        400, "invalid_request", f"{where}: {message}" if where else message, param=where or None
    )


def _http(error: HTTPException) -> ApiError:
    status = error.status_code if error.status_code in TYPES else 400
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "invalid_request")
    return ApiError(status, code, str(error.detail), headers=error.headers)
