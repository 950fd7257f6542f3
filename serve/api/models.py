"""POST /v1/rerank and POST /v1/embeddings."""

from __future__ import annotations

import base64
import uuid
from typing import Any

import numpy as np
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from serve.api.errors import ApiError
from serve.api.service import Serviced, caller_of, while_connected
from serve.api.shapes import (
    EmbeddingsReply,
    EmbeddingsRequest,
    RerankReply,
    RerankRequest,
)

router = APIRouter(prefix="/v1", tags=["models"], dependencies=[Depends(caller_of)])


@router.post("/rerank", response_model=RerankReply)
async def rerank(body: RerankRequest, request: Request, service: Serviced) -> Response:
    """Order texts by their relevance to a query."""
    query = service.check_text("query", body.query)
    texts = [one if isinstance(one, str) else one.text for one in body.documents]
    _check_count("documents", len(texts), service.config.service.limits.texts)
    scorer = service.backend.scorer()
    scores = await while_connected(request, scorer.score(query, texts))
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")[: body.top_n]
    results: list[dict[str, Any]] = [
        {"index": int(place), "relevance_score": float(scores[place])}
        | ({"document": {"text": texts[place]}} if body.return_documents else {})
        for place in order
    ]
    return JSONResponse(
        {
            "id": uuid.uuid4().hex,
            "model": scorer.model or scorer.kind,
            "results": results,
            "usage": {"total_tokens": 0},
            "meta": {"billed_units": {"search_units": 1}},
        }
    )


@router.post("/embeddings", response_model=EmbeddingsReply)
async def embeddings(body: EmbeddingsRequest, request: Request, service: Serviced) -> Response:
    """Vectors of texts, by the encoder that made the collection's."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    _check_count("input", len(texts), service.config.service.limits.texts)
    if not texts:
        raise ApiError(400, "invalid_request", "input is empty", param="input")
    vectors = await while_connected(request, service.backend.encoder.encode(texts, body.input_type))
    if body.dimensions is not None and body.dimensions != vectors.shape[1]:
        message = f"dimensions is {body.dimensions}; this encoder gives {vectors.shape[1]}"
        raise ApiError(400, "invalid_request", message, param="dimensions")
    return JSONResponse(
        {
            "object": "list",
            "model": service.config.embed.model,
            "data": [
                {"object": "embedding", "index": number, "embedding": _written(vector, body)}
                for number, vector in enumerate(vectors)
            ],
            "usage": {"prompt_tokens": 0, "total_tokens": 0},
        }
    )


def _written(vector: Any, body: EmbeddingsRequest) -> list[float] | str:
    if body.encoding_format == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.tolist()
    return numbers


def _check_count(name: str, count: int, most: int) -> None:
    if count > most:
        message = f"{name} has {count:,} texts; the most is {most:,}"
        raise ApiError(400, "invalid_request", message, param=name)
