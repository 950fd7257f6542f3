"""What comes in, before a route sees it: the body's size, the time it takes, its JSON, the key."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serve.api.errors import ApiError
from serve.api.service import admit

MAX_DEPTH = 100
MAX_DIGITS = 40
# Of a body that is too large so much is read and thrown away, in multiples of the limit, so that a
# client that sends before it reads comes to see the reply.
READ_ON = 8

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class Bodies:
    """Reads a request's body whole before it is handled: no larger and no slower than allowed."""

    def __init__(self, app: ASGIApp, most: int, seconds: float) -> None:
        """`most` are bytes."""
        self._app = app
        self._most = most
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hands the request on with its body in one piece, or replies 413 or 408."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._seconds):
                body = await self._read(scope, receive)
        except TimeoutError:
            message = f"the body did not come within {self._seconds:g} seconds"
            await _refuse(408, "body_too_slow", message, scope, receive, send)
            return
        except _TooLargeError:
            message = f"the body is larger than {self._most // 1024:,} KiB"
            await _refuse(413, "body_too_large", message, scope, receive, send)
            return
        if body is None:  # the client went away
            return
        whole: Message | None = {"type": "http.request", "body": body, "more_body": False}

        async def again() -> Message:
            nonlocal whole
            given, whole = whole, None
            return await receive() if given is None else given

        await self._app(scope, again, send)

    async def _read(self, scope: Scope, receive: Receive) -> bytes | None:
        """The body; None where the client goes away before its end. Raises _TooLargeError."""
        length = Headers(scope=scope).get("content-length", "")
        announced = int(length) if length.isdigit() and len(length) < 20 else 0
        parts: list[bytes] = []
        seen, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part, more = message.get("body", b""), message.get("more_body", False)
            seen += len(part)
            if seen <= self._most:
                parts.append(part)
            if max(seen, announced) > self._most * READ_ON:
                break
        if max(seen, announced) > self._most:
            raise _TooLargeError
        return b"".join(parts)


class JsonRequest(Request):
    """A request whose body is strict JSON."""

    async def json(self) -> Any:
        """The body's value. Raises json.JSONDecodeError."""
        return strict_json(await self.body())


class ApiRoute(APIRoute):
    """A route that needs a key where the service has keys, and reads strict JSON.

    The key is looked at first: who has none is told nothing of what is wrong with a request.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler with what comes before it."""
        handle = super().get_route_handler()
        takes_body = self.body_field is not None

        async def handler(request: Request) -> Response:
            admit(request)
            if takes_body:
                _check_media_type(request)
            return await handle(JsonRequest(request.scope, request.receive))

        return handler


def strict_json(body: bytes) -> Any:
    """The value of a JSON text in UTF-8. Raises json.JSONDecodeError.

    Refused are also what Python reads beyond the standard (NaN, Infinity), what no text in UTF-8
    can hold (half of a surrogate pair), numbers of many digits or beyond a float, a name that
    stands twice in an object, and nesting beyond MAX_DEPTH.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_json("it is not UTF-8", error.start) from None
    try:
        value = json.loads(
            text,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise _not_json(f"it is nested more than {MAX_DEPTH} levels deep") from None
    except ValueError as error:
        raise _not_json(str(error)) from None
    if _depth_beyond(value, MAX_DEPTH):
        raise _not_json(f"it is nested more than {MAX_DEPTH} levels deep")
    if _SURROGATE.search(body):
        _check_surrogates(value)
    return value


class _TooLargeError(Exception):
    pass


async def _refuse(
    status: int, code: str, message: str, scope: Scope, receive: Receive, send: Send
) -> None:
    """Replies, and asks for the connection to be closed: the rest of the body is not read."""
    error = ApiError(status, code, message, headers={"Connection": "close"})
    await error.reply()(scope, receive, send)


def _check_media_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    kind = given.partition(";")[0].strip().lower()
    if kind != "application/json" and not re.fullmatch(r"application/[\w.-]+\+json", kind):
        what = f"it is sent as {kind!r}" if kind else "it has no Content-Type"
        message = f"the body must be JSON, with the header 'Content-Type: application/json'; {what}"
        raise ApiError(415, "unsupported_media_type", message)


def _not_json(reason: str, at: int = 0) -> json.JSONDecodeError:
    return json.JSONDecodeError(reason, "", at)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text[:20]} is out of range")
    return number


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"the number {text[:20]}... has {len(text):,} digits")
    return int(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name[:40]!a} stands twice in an object")
        found[name] = value
    return found


def _depth_beyond(value: Any, most: int) -> bool:
    """Whether objects and lists are nested deeper than that."""
    level = [value]
    for _ in range(most):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return any(isinstance(one, dict | list) for one in level)


def _check_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _not_json("it has half of a surrogate pair, which is no character") from None
