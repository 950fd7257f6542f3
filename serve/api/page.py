"""GET / and GET /page/NAME: the page for people, a few static files that ask the API.

The files refer to each other and to the API by relative addresses, so that the service may stand
behind a proxy under any prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import Response

from serve.api.errors import ApiError

router = APIRouter(include_in_schema=False)

FOLDER = Path(__file__).parent.parent / "page"

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

# Scripts and styles come from files alone, nothing from elsewhere, and no text is ever read as
# HTML: the browser itself refuses what would make a document's words part of the page.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",  # pages of PDFs are fetched with the key, and shown from memory
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",  # the address holds the question
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class File:
    """A file of the page; `tag` changes with its content."""

    content: bytes
    media_type: str
    tag: str


@cache
def files() -> dict[str, File]:
    """The files by name, read once."""
    found = {}
    for path in FOLDER.iterdir():
        if path.suffix in MEDIA_TYPES:
            content = path.read_bytes()
            tag = f'"{sha256(content).hexdigest()[:16]}"'
            found[path.name] = File(content, MEDIA_TYPES[path.suffix], tag)
    return found


@router.api_route("/", methods=["GET", "HEAD"])
async def index(request: Request) -> Response:
    """The page."""
    return reply(request, "index.html")


@router.api_route("/page/{name}", methods=["GET", "HEAD"])
async def part(name: str, request: Request) -> Response:
    """A file that the page is made of."""
    if name == "index.html":  # its addresses are relative to /
        raise _absent(name)
    return reply(request, name)


def reply(request: Request, name: str) -> Response:
    """A file, or 304 where the browser has it. Raises ApiError 404."""
    file = files().get(name)
    if file is None:
        raise _absent(name)
    headers = HEADERS | {"ETag": file.tag, "Cache-Control": "no-cache"}
    known = request.headers.get("if-none-match", "")
    if file.tag in known.replace("W/", "").split(", "):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.media_type, headers=headers)


def _absent(name: str) -> ApiError:
    return ApiError(404, "not_found", f"the page has no file {name!r}")
