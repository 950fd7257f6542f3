"""The bodies of replies."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class Place(BaseModel):
    """Where a channel has a hit; `fact` is the rewritten sentence that it found, if it was one."""

    rank: int
    score: float
    fact: str | None = None


class Hit(BaseModel):
    """A passage that was found."""

    rank: int
    score: float
    channels: dict[str, Place]
    chunk_id: str
    doc_id: str
    uri: str
    title: str | None
    pages: list[int] | None
    section: str | None
    text: str


class SearchReply(BaseModel):
    """What was found, and the version that it was found in."""

    id: str
    version: str
    query: str
    hits: list[Hit]
    timings_ms: dict[str, float]
    transform: dict[str, Any] | None
    notes: list[str]


class CitationReply(BaseModel):
    """A quote that supports a sentence of the answer."""

    marker: int
    chunk_id: str
    doc_id: str
    uri: str
    page: int | None
    quote: str


class Answered(BaseModel):
    """What stands in every answer; `guardrails` has a verdict for each rule that is on."""

    version: str
    question: str = Field(description="the question as it was searched")
    answer: str
    citations: list[CitationReply]
    hits: list[Hit]
    timings_ms: dict[str, float]
    notes: list[str]
    guardrails: dict[str, dict[str, Any]]


class AskReply(Answered):
    """An answer with its citations."""

    id: str
    transform: dict[str, Any] | None


class Said(BaseModel):
    """The message of a completion."""

    role: Literal["assistant"]
    content: str
    refusal: None


class Choice(BaseModel):
    """The one choice of a completion."""

    index: int
    message: Said
    finish_reason: Literal["stop"]
    logprobs: None


class Usage(BaseModel):
    """Tokens as the language model's server counted them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatReply(Answered):
    """A completion in OpenAI's shape, with what stands in every answer beside it."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = Field(None, description="absent where no tokens were counted")


class Model(BaseModel):
    """The one model: the collection behind its generator."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelsReply(BaseModel):
    """GET /v1/models."""

    object: Literal["list"]
    data: list[Model]


class Ranked(BaseModel):
    """The text of a ranked document."""

    text: str


class RerankResult(BaseModel):
    """A text's place in the list that was given, and its score; best first."""

    index: int
    relevance_score: float
    document: Ranked | None = None


class TokensRead(BaseModel):
    """Tokens that the encoder read."""

    total_tokens: int


class RerankReply(BaseModel):
    """The order of the texts. `usage` is there where the collection's encoder ranked them."""

    id: str
    model: str
    results: list[RerankResult]
    usage: TokensRead | None = None


class Embedding(BaseModel):
    """A text's vector: numbers, or the base64 of float32s."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(TokensRead):
    """Tokens that the encoder read, special ones included; what it cut off is not counted."""

    prompt_tokens: int


class EmbeddingsReply(BaseModel):
    """The vectors in the order of the texts."""

    object: Literal["list"]
    model: str
    data: list[Embedding]
    usage: EmbeddingUsage
    notes: list[str]


class Page(BaseModel):
    """A page as a span of the document's text."""

    number: int
    start: int
    end: int


class Section(BaseModel):
    """A section as a span of the document's text, with its headings from the top."""

    title: str | None
    level: int
    path: str | None
    start: int
    end: int


class DocumentReply(BaseModel):
    """A document, and its text from `start` to `end` of all its `chars`."""

    version: str
    doc_id: str
    uri: str
    title: str | None
    media_type: str | None
    metadata: dict[str, Any]
    status: str
    pages: list[Page]
    sections: list[Section]
    page_images: bool
    chars: int
    start: int
    end: int
    text: str


class ChunkReply(BaseModel):
    """A chunk, its span in the document's text and its first and last page."""

    version: str
    chunk_id: str
    doc_id: str
    uri: str
    title: str | None
    section: str | None
    kind: str
    parent_id: str | None
    start: int
    end: int
    header: str
    text: str
    pages: list[int] | None


class Allowed(BaseModel):
    """What a request may ask for."""

    body_kb: int
    body_s: float
    query_chars: int
    filter_conditions: int
    top_k: int
    max_tokens: int
    deadline_ms: int
    texts: int
    transforms: list[str]
    rerankers: list[str]


class CollectionReply(BaseModel):
    """What can be asked. `documents` and `chunks` are left out behind the filter of a key."""

    version: str
    name: str
    fields: dict[str, str]
    channels: list[str]
    top_k: int
    generator: str
    rerank: str
    transform: str
    documents: dict[str, int] | None = None
    chunks: int | None = None
    limits: Allowed


class Healthy(BaseModel):
    """This process answers."""

    status: Literal["ok"]


class Refused(BaseModel):
    """A version that could not be used."""

    version: str
    reason: str


class Ready(BaseModel):
    """Which version answers. `degraded`: a newer one was refused."""

    status: Literal["ok", "degraded", "unavailable"]
    version: str | None
    refused: Refused | None
