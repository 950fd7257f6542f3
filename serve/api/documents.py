"""GET /v1/documents/{id}, /v1/documents/{id}/pages/{n}, /v1/chunks/{id} and /v1/collection."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from serve.api.errors import ApiError
from serve.api.incoming import ApiRoute
from serve.api.replies import ChunkReply, CollectionReply, DocumentReply
from serve.api.service import SENT, Called, Service, Serviced

router = APIRouter(prefix="/v1", tags=["documents"], route_class=ApiRoute, dependencies=SENT)

PNG: dict[int | str, dict[str, Any]] = {200: {"content": {"image/png": {}}}}
MOST_PAGES = 1_000_000


@router.get("/collection", response_model=CollectionReply, response_model_exclude_none=True)
async def collection(service: Serviced, caller: Called) -> Response:
    """What is asked: the version, its fields and channels, and the limits of a request."""
    known = await service.backend.retriever.describe(caller.where)
    limits = service.config.service.limits
    allowed = {"transforms": service.transforms, "rerankers": service.rerankers}
    return JSONResponse(known | {"limits": limits.model_dump() | allowed})


@router.get("/documents/{doc_id}", response_model=DocumentReply)
async def document(
    doc_id: str,
    service: Serviced,
    caller: Called,
    start: Annotated[int, Query(ge=0)] = 0,
    end: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """A document: where it is from, its pages and sections, and its text from `start` to `end`.

    At most 200,000 characters come at once; `end` of the reply says where to go on.
    """
    found = await service.backend.retriever.document(doc_id, caller.where, start, end)
    if found is None:
        raise _absent("document", doc_id)
    metadata = json.loads(found["metadata"] or "{}")
    more = {"metadata": metadata, "page_images": _has_images(service, found)}
    return JSONResponse(found | more)


@router.get("/documents/{doc_id}/pages/{page}", response_class=Response, responses=PNG)
async def page_image(
    doc_id: str,
    page: int,
    service: Serviced,
    caller: Called,
    width: Annotated[int, Query(ge=64, le=2000)] = 1000,
) -> Response:
    """A page of a PDF as an image, where its source can be reached and is as it was ingested."""
    image = None
    if service.config.service.page_images and 1 <= page <= MOST_PAGES:
        image = await service.backend.retriever.page(doc_id, page, caller.where, width)
    if image is None:
        raise _absent("page", f"{doc_id}/{page}")
    headers = {"Cache-Control": "private, max-age=300", "Vary": "Authorization, x-api-key"}
    return Response(image, media_type="image/png", headers=headers)


@router.get("/chunks/{chunk_id}", response_model=ChunkReply)
async def chunk(chunk_id: str, service: Serviced, caller: Called) -> Response:
    """A chunk: its text, and its span and pages in the document."""
    found = await service.backend.retriever.chunk(chunk_id, caller.where)
    if found is None:
        raise _absent("chunk", chunk_id)
    return JSONResponse(found)


def _has_images(service: Service, found: dict[str, Any]) -> bool:
    return service.config.service.page_images and found["media_type"] == "application/pdf"


def _absent(what: str, name: str) -> ApiError:
    """Also where a key's filter hides it: that it exists is not told."""
    return ApiError(404, "not_found", f"there is no {what} {name[:200]!r}")
