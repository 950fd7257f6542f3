"""The bodies of requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def not_bool(value: object) -> object:
    """The value. Raises ValueError for true and false, which pydantic takes for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("a number is asked for, not true or false")
    return value


Text = Annotated[str, Field(min_length=1)]
Channel = Literal["dense", "bm25", "splade"]
# JSON's true is no number, though Python's is.
Whole = Annotated[int, BeforeValidator(not_bool)]
TopK = Annotated[Whole | None, Field(ge=1, description="most hits")]
Filter = Annotated[
    dict[str, Any] | None, Field(description='metadata filter, such as {"year": {"gte": 2020}}')
]
Channels = Annotated[
    list[Channel] | None, Field(min_length=1, max_length=8, description="channels to search")
]
Transform = Annotated[
    str | None, Field(description="what is made of the query before the search, such as feedback")
]
Rerank = Annotated[str | None, Field(description="the reranker, such as late_interaction")]
Deadline = Annotated[Whole | None, Field(ge=1, description="milliseconds that it may take")]
MaxTokens = Annotated[Whole | None, Field(ge=1, description="most tokens of the answer")]
Temperature = Annotated[float | None, Field(ge=0, le=2)]


class Searching(BaseModel):
    """What a search may set. Unknown keys are refused: a misspelt one would be ignored silently."""

    model_config = ConfigDict(extra="forbid")
    top_k: TopK = None
    filter: Filter = None
    channels: Channels = None
    transform: Transform = None
    rerank: Rerank = None
    deadline_ms: Deadline = None


class SearchRequest(Searching):
    """POST /v1/search."""

    query: Text


class AskRequest(Searching):
    """POST /v1/ask."""

    question: Text
    stream: bool = False
    max_tokens: MaxTokens = None
    temperature: Temperature = None


class Foreign(BaseModel):
    """A request in the shape of another API: keys of it that have no use here are taken."""

    model_config = ConfigDict(extra="allow")

    @property
    def unused(self) -> list[str]:
        """The names of what was sent and has no use here."""
        sent = self.model_extra or {}
        return sorted(name[:40] for name, value in sent.items() if value is not None)


class ContentPart(Foreign):
    """A part of a message; only those of text are read."""

    type: str = "text"
    text: str | None = None


class ChatMessage(Foreign):
    """A turn of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None

    @property
    def said(self) -> str:
        """The text, or that of the parts."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.text is not None)
        return self.content or ""

    @property
    def has_more(self) -> bool:
        """Whether there are parts that are no text."""
        return isinstance(self.content, list) and any(part.text is None for part in self.content)


class StreamOptions(Foreign):
    """Of a streamed completion."""

    include_usage: bool | None = False


class ChatRequest(Foreign):
    """POST /v1/chat/completions: OpenAI's, with the settings of a search beside them."""

    model: str = "rag-cluster"
    messages: list[ChatMessage] = Field(min_length=1)
    n: Literal[1] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: MaxTokens = None
    max_completion_tokens: MaxTokens = None
    temperature: Temperature = None
    user: str | None = Field(None, description="taken, and not used")
    top_k: TopK = None
    filter: Filter = None
    channels: Channels = None
    transform: Transform = None
    rerank: Rerank = None
    deadline_ms: Deadline = None

    @property
    def searching(self) -> Searching:
        """The settings of the search."""
        return Searching(**{name: getattr(self, name) for name in Searching.model_fields})


class RerankDocument(Foreign):
    """A text to rank."""

    text: str


class RerankRequest(Foreign):
    """POST /v1/rerank, as Cohere and Jina have it."""

    model: str | None = None
    query: Text
    documents: list[str | RerankDocument] = Field(min_length=1)
    top_n: Whole | None = Field(None, ge=1, description="how many of the best to return")
    return_documents: bool | None = False
    deadline_ms: Deadline = None

    @property
    def texts(self) -> list[str]:
        """The documents' texts."""
        return [one if isinstance(one, str) else one.text for one in self.documents]


class EmbeddingsRequest(Foreign):
    """POST /v1/embeddings: OpenAI's; `input_type` says whether texts are passages or queries."""

    model: str | None = None
    input: Text | Annotated[list[Text], Field(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = Field(None, ge=1, description="taken where it is the encoder's own")
    input_type: Literal["query", "passage"] = "passage"
    deadline_ms: Deadline = None

    @property
    def texts(self) -> list[str]:
        """The texts."""
        return [self.input] if isinstance(self.input, str) else self.input
