"""The bodies of requests and replies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1)]
Channel = Literal["dense", "bm25", "splade"]


class Body(BaseModel):
    """A request: unknown keys are refused, so that a misspelt one is not silently ignored."""

    model_config = ConfigDict(extra="forbid")


class Searching(Body):
    """What a search may set."""

    top_k: int | None = Field(None, ge=1, description="most hits")
    filter: dict[str, Any] | None = Field(None, description="metadata filter, such as {year: 2020}")
    channels: list[Channel] | None = Field(None, min_length=1, description="channels to search")
    transform: str | None = Field(None, description="what is made of the query before the search")
    rerank: str | None = Field(None, description="the reranker")
    deadline_ms: int | None = Field(None, ge=1, description="milliseconds that it may take")


class SearchRequest(Searching):
    """POST /v1/search."""

    query: Text


class AskRequest(Searching):
    """POST /v1/ask."""

    question: Text
    stream: bool = False
    max_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)


class Place(BaseModel):
    """Where a channel has a hit."""

    rank: int
    score: float


class Hit(BaseModel):
    """A passage that was found."""

    rank: int
    score: float
    channels: dict[str, Place]
    chunk_id: str
    doc_id: str
    uri: str
    title: str
    pages: list[int] | None
    section: str
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


class AskReply(BaseModel):
    """An answer with its citations."""

    id: str
    version: str
    question: str
    answer: str
    citations: list[CitationReply]
    hits: list[Hit]
    timings_ms: dict[str, float]
    transform: dict[str, Any] | None
    notes: list[str]
    guardrails: dict[str, Any]


class ChatMessage(BaseModel):
    """A turn of a conversation. Other keys of OpenAI's are taken and not used."""

    model_config = ConfigDict(extra="allow")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """The text parts, joined."""
        if isinstance(self.content, str):
            return self.content
        parts = [str(part.get("text", "")) for part in self.content or () if "text" in part]
        return "\n".join(parts)


class StreamOptions(BaseModel):
    """Of a streamed completion."""

    model_config = ConfigDict(extra="allow")
    include_usage: bool | None = False


class ChatRequest(BaseModel):
    """POST /v1/chat/completions: OpenAI's, with the settings of a search beside them."""

    model_config = ConfigDict(extra="allow")
    model: str = "rag-cluster"
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_k: int | None = Field(None, ge=1)
    filter: dict[str, Any] | None = None
    channels: list[Channel] | None = Field(None, min_length=1)
    transform: str | None = None
    rerank: str | None = None
    deadline_ms: int | None = Field(None, ge=1)


class RerankDocument(BaseModel):
    """A text to rank."""

    model_config = ConfigDict(extra="allow")
    text: str


class RerankRequest(BaseModel):
    """POST /v1/rerank, as Cohere and Jina have it."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    query: Text
    documents: list[str | RerankDocument] = Field(min_length=1)
    top_n: int | None = Field(None, ge=1)
    return_documents: bool | None = False


class RerankResult(BaseModel):
    """A text's place in the list that was given, and its score; best first."""

    index: int
    relevance_score: float
    document: RerankDocument | None = None


class RerankReply(BaseModel):
    """The order of the texts."""

    id: str
    model: str
    results: list[RerankResult]
    usage: dict[str, int]
    meta: dict[str, Any]


class EmbeddingsRequest(BaseModel):
    """POST /v1/embeddings: OpenAI's; `input_type` says whether texts are passages or queries."""

    model_config = ConfigDict(extra="allow")
    model: str | None = None
    input: str | list[str]
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = None
    input_type: Literal["query", "passage"] = "passage"


class Embedding(BaseModel):
    """A text's vector: numbers, or the base64 of float32s."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingsReply(BaseModel):
    """The vectors in the order of the texts."""

    object: Literal["list"] = "list"
    model: str
    data: list[Embedding]
    usage: dict[str, int]
