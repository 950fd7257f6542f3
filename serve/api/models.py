"""POST /v1/rerank and POST /v1/embeddings."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from serve.api.incoming import ApiRoute
from serve.api.replies import EmbeddingsReply, RerankReply
from serve.api.service import SENT, Service, Serviced, invalid, while_connected
from serve.api.shapes import EmbeddingsRequest, RerankRequest
from serve.options import Options
from serve.retriever import in_time

router = APIRouter(prefix="/v1", tags=["models"], route_class=ApiRoute, dependencies=SENT)


@router.post("/rerank", response_model=RerankReply, response_model_exclude_none=True)
async def rerank(body: RerankRequest, request: Request, service: Serviced) -> Response:
    """Order texts by their relevance to a query. Scores are on the reranker's own scale."""
    query = service.check_text("query", body.query)
    texts = body.texts
    service.check_count("documents", len(texts))
    options = Options(deadline=service.deadline(body.deadline_ms))
    return await while_connected(request, _ranked(service, query, texts, body, options))


async def _ranked(
    service: Service, query: str, texts: Sequence[str], body: RerankRequest, options: Options
) -> Response:
    scorer = service.backend.scorer()
    async with in_time("rerank", options):
        scores = await scorer.score(query, texts)
        usage = await _read_by_encoder(service, query, texts) if scorer.is_encoder else {}
    order = np.argsort(-np.asarray(scores, np.float64), kind="stable")[: body.top_n]
    results: list[dict[str, Any]] = [
        {"index": int(place), "relevance_score": float(scores[place])}
        | ({"document": {"text": texts[place]}} if body.return_documents else {})
        for place in order
    ]
    head = {"id": uuid.uuid4().hex, "model": scorer.model or scorer.kind, "results": results}
    return JSONResponse(head | usage)


async def _read_by_encoder(
    service: Service, query: str, texts: Sequence[str]
) -> dict[str, dict[str, int]]:
    encoder = service.backend.encoder
    asked, _ = await encoder.tokens([query], "query")
    read, window = await encoder.tokens(texts, "passage")
    return {"usage": {"total_tokens": sum(min(count, window) for count in [*asked, *read])}}


@router.post("/embeddings", response_model=EmbeddingsReply)
async def embeddings(body: EmbeddingsRequest, request: Request, service: Serviced) -> Response:
    """Vectors of texts, by the encoder that made the collection's."""
    service.check_count("input", len(body.texts))
    options = Options(deadline=service.deadline(body.deadline_ms))
    return await while_connected(request, _embedded(service, body, options))


async def _embedded(service: Service, body: EmbeddingsRequest, options: Options) -> Response:
    encoder = service.backend.encoder
    async with in_time("encode", options):
        vectors = await encoder.encode(body.texts, body.input_type)
        counts, window = await encoder.tokens(body.texts, body.input_type)
    if body.dimensions not in (None, vectors.shape[1]):
        message = f"dimensions is {body.dimensions}; this encoder gives {vectors.shape[1]}"
        raise invalid("dimensions", message)
    read, cut = sum(min(count, window) for count in counts), sum(count > window for count in counts)
    data = [
        {"object": "embedding", "index": number, "embedding": _written(vector, body)}
        for number, vector in enumerate(vectors)
    ]
    return JSONResponse(
        {
            "object": "list",
            "model": service.config.embed.model,
            "data": data,
            "usage": {"prompt_tokens": read, "total_tokens": read},
            "notes": [f"{cut} texts were cut at the encoder's {window:,} tokens"] if cut else [],
        }
    )


def _written(vector: Any, body: EmbeddingsRequest) -> list[float] | str:
    if body.encoding_format == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.tolist()
    return numbers
