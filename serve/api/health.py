"""GET (or HEAD) /healthz and /readyz."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from serve.api.replies import Healthy, Ready
from serve.api.service import Serviced

router = APIRouter(tags=["health"])

ASK_S = 5.0


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", response_model=Healthy)
async def healthz() -> Response:
    """Whether this process answers."""
    return JSONResponse({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    response_model=Ready,
    responses={503: {"model": Ready, "description": "No version can be searched"}},
)
async def readyz(service: Serviced) -> Response:
    """Whether queries can be answered, from which version, and whether a newer one was refused."""
    try:
        async with asyncio.timeout(ASK_S):
            found: dict[str, Any] = await service.backend.retriever.status()
    except Exception:  # noqa: BLE001 - whatever keeps the retriever from answering
        return JSONResponse({"status": "unavailable", "version": None, "refused": None}, 503)
    service.observer.version(found["version"])
    ready = found["version"] is not None
    status = "unavailable" if not ready else "degraded" if found["refused"] else "ok"
    return JSONResponse({"status": status} | found, 200 if ready else 503)
