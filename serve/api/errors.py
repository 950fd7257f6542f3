"""Every error in one shape, which is the one that OpenAI's clients read.

{"error": {"message": "...", "type": "invalid_request_error", "code": "...", "param": null}}
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from rag_cluster.errors import (
    CollectionError,
    FilterError,
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
    408: "timeout_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    499: "client_closed_request",
    500: "api_error",
    502: "upstream_error",
    503: "unavailable_error",
    504: "deadline_error",
}


# When a caller may try again what could not be done just now.
RETRY_AFTER_S = "1"


class ErrorBody(BaseModel):
    """What went wrong: `code` for programs, `message` for people, `param` what it is about."""

    message: str
    type: str
    code: str
    param: str | None


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
        self.headers = ({"Retry-After": RETRY_AFTER_S} if status == 503 else {}) | dict(
            headers or {}
        )

    def reply(self) -> ErrorResponse:
        """The response."""
        return ErrorResponse(self)


class ErrorResponse(JSONResponse):
    """An error's reply, which leaves its code with the request for what watches it."""

    def __init__(self, error: ApiError) -> None:
        body = ErrorReply(error=error.body).model_dump()
        super().__init__(body, error.status, headers=error.headers)
        self._code = error.body.code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the reply."""
        leave_code(scope, self._code)
        await super().__call__(scope, receive, send)


def leave_code(scope: Scope, code: str) -> None:
    """Notes the code of the error that a request ends with."""
    scope.setdefault("state", {})["error_code"] = code


def overloaded(what: str) -> ApiError:
    """503: the caller may try again."""
    message = f"{what} has as much to do as it takes at a time: try again in a second"
    return ApiError(503, "overloaded", message)


def replica_lost() -> ApiError:
    """503: what worked on the request died; the caller may try again."""
    message = "a part of the service was lost while it worked on this: try again in a second"
    return ApiError(503, "replica_lost", message)


def ending() -> ApiError:
    """503: the service is about to end; the caller may try again."""
    return ApiError(503, "ending", "the service is about to end: try again when it is back")


def client_gone() -> ApiError:
    """499: nobody reads it. It ends the work of a request, and stands in logs."""
    return ApiError(499, "client_closed_request", "the client went away")


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
            param = "filter" if isinstance(error, FilterError) else None
            return ApiError(400, "invalid_request", str(error), param=param)
        case ServiceError() | ModelError():
            log.warning("a model failed: %s", error)
            return ApiError(502, "model_failed", str(error))
        case RagClusterError():
            return ApiError(500, "internal_error", str(error))
        case RequestValidationError():
            return _invalid(error)
        case HTTPException():
            return _http(error)
    # Ray's errors, by name, so that the API in one process need not load Ray. What a replica was
    # refused by another comes as a class that inherits from the error's own.
    names = {kind.__name__ for kind in type(error).__mro__}
    if "BackPressureError" in names:
        return overloaded("this part of the service")
    if "RayActorError" in names:
        log.warning("a replica was lost: %s", error)
        return replica_lost()
    log.error("unforeseen error", exc_info=error)
    return ApiError(500, "internal_error", "the service failed; its log says why")


def install(app: FastAPI) -> None:
    """Makes all errors of an app take the one shape."""

    async def reply(_: Request, error: Exception) -> JSONResponse:
        return explain(error).reply()

    for kind in (ApiError, DeadlineError, RagClusterError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, reply)
    app.add_exception_handler(Exception, reply)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, as its description has them."""
    return {
        status: {"model": ErrorReply, "description": TYPES[status].replace("_", " ")}
        for status in statuses
    }


# What any route of /v1 may reply beside its success.
RESPONSES = responses(400, 401, 403, 404, 408, 413, 415, 429, 500, 502, 503, 504)


def _invalid(error: RequestValidationError) -> ApiError:
    first = _nearest(error.errors())
    if first["type"] == "json_invalid":
        reason = first["ctx"]["error"]
        return ApiError(400, "invalid_json", f"the body is not JSON that can be read: {reason}")
    if first["type"] == "missing" and first["loc"] == ("body",):
        return ApiError(400, "invalid_request", "the request has no body")
    place = first["loc"]
    if place[:1] in (("body",), ("query",), ("path",)):
        place = place[1:]
    where = ".".join(str(part) for part in place if _is_key(part))
    message = str(first["msg"]).removeprefix("Value error, ")
    return ApiError(
        400, "invalid_request", f"{where}: {message}" if where else message, param=where or None
    )


def _nearest(errors: Sequence[Any]) -> Any:
    """Of what is wrong with the first field: where it may be of several kinds, the kind it has."""
    own = [error for error in errors if error["loc"][:2] == errors[0]["loc"][:2]]
    return max(own, key=lambda error: (not error["type"].endswith("_type"), len(error["loc"])))


def _is_key(part: str | int) -> bool:
    """Whether a part of an error's place is in the request; others name kinds of a value."""
    return isinstance(part, int) or (part.isidentifier() and part.islower() and part != "str")


def _http(error: HTTPException) -> ApiError:
    match error.status_code:
        case 404:
            return ApiError(404, "not_found", "there is nothing at this path")
        case 405:
            message = "this path takes other methods"
            return ApiError(405, "method_not_allowed", message, headers=error.headers)
        case status if status in TYPES:
            return ApiError(status, "invalid_request", str(error.detail), headers=error.headers)
    return ApiError(400, "invalid_request", str(error.detail))
