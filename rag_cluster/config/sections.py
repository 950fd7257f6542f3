"""The sections of the configuration and their keys, each with its default and its comment.

The defaults are the embedded set-up of a laptop: no GPU, no network, no server.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from rag_cluster import prompts
from rag_cluster.config.chunking import Chunk, check_facts
from rag_cluster.config.guardrails import Guardrails
from rag_cluster.config.indexing import Embed, Index, Sparse
from rag_cluster.config.search import Rerank, Retrieve, Transform, check_queries
from rag_cluster.config.section import Section, key
from rag_cluster.config.service import Service
from rag_cluster.errors import ConfigError
from rag_cluster.schema import CHUNK, FieldType


class Parse(Section):
    mode: Literal["fast", "tables", "layout"] = key(
        "fast",
        "PDF: fast = text, headings and table rows on one line; tables = find tables where a page "
        "shows signs of one, as Markdown; layout = pymupdf4llm's layout model (slow)",
    )
    timeout_s: float = key(120.0, "seconds that one file may take before it is failed", gt=0)
    memory_mb: int = key(4096, "MiB of memory that the parser process may take", ge=256)
    retries: int = key(
        1, "tries again of a file that crashed its parser, before it is failed", ge=0
    )
    record_id: str = key("_id", "records (JSONL, Parquet): the field with the record's own id")
    record_text: str = key("text", "records: the field with the text")
    record_title: str = key("title", "records: the field with the title")
    record_part_mb: int = key(8, "records: MiB of a file that are read as one task", ge=1)


class LanguageModel(Section):
    engine: Literal["none", "openai", "transformers", "vllm", "fake"] = key(
        "none",
        "openai = any OpenAI-compatible server; transformers = a local model, one request at a "
        "time; vllm = batches on the cluster, through ray.data.llm (ingest only; for queries run a "
        "vLLM server and name it with openai)",
    )
    model: str | None = key(None, "name at the server, or hub id, local path, package:MODULE/PATH")
    revision: str | None = key(None, "revision of a hub model")
    base_url: str | None = key(None, "openai: the server, such as http://localhost:8000/v1")
    api_key_env: str = key("OPENAI_API_KEY", "openai: environment variable that holds the key")
    tokenizer: str | None = key(
        None,
        "openai: hub id or local path of the model's tokenizer, to count tokens; null = the "
        "encoder's, which is near enough",
    )
    window: int | None = key(
        None, "tokens of prompt and completion together; null = the model's own, or 8192", ge=64
    )
    temperature: float = key(0.0, "0 = the likeliest token each time", ge=0, le=2)
    concurrency: int = key(8, "openai: requests at a time of one worker", ge=1)
    timeout_s: float = key(120.0, "openai: seconds to wait for an answer", gt=0)
    retries: int = key(5, "openai: tries again on 429, 5xx and lost connections", ge=0)
    engines: int = key(1, "workers: engines of vllm or transformers, clients of openai", ge=1)
    engine_cpus: float = key(1.0, "CPUs of a worker", gt=0)
    engine_gpus: float = key(0.0, "GPUs of a worker", ge=0)
    engine_kwargs: dict[str, Any] = key(
        {}, "vllm: arguments of the engine, such as {max_model_len: 16384, dtype: bfloat16}"
    )
    env: dict[str, str] = key({}, "vllm: environment of its workers")
    batch_size: int = key(32, "vllm: prompts of a batch; several batches overlap", ge=1)


class Enrich(Section):
    kind: Literal["none", "heading", "contextual", "heading+contextual"] = key(
        "heading",
        "heading = file name, title and section path, as they fit, stand before each chunk; "
        "contextual = what the language model of `llm` says of the chunk's place in its document",
    )
    max_tokens: int = key(
        20,
        "most tokens of a heading line; a longer one keeps its two ends: the document and the "
        "heading",
        ge=8,
    )
    context_tokens: int = key(
        100, "contextual: most tokens that the model writes, and that are kept of it", ge=8
    )

    @model_validator(mode="before")
    @classmethod
    def _kind_alone(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @property
    def contextual(self) -> bool:
        """Whether a language model writes contexts."""
        return self.kind in ("contextual", "heading+contextual")

    @property
    def tokens(self) -> int:
        """The most tokens that a context takes."""
        heading = 0 if self.kind == "none" else self.max_tokens
        match self.kind:
            case "contextual":
                return max(heading, self.context_tokens)
            case "heading+contextual":
                return heading + self.context_tokens
            case _:
                return heading


class Answer(Section):
    budget_tokens: int = key(1500, "most tokens of passages that the generator reads", ge=32)
    passages: int = key(8, "most passages that the generator reads", ge=1)
    duplicate_threshold: float = key(
        0.9, "passages whose word 3-grams overlap this much (Jaccard) are one", gt=0, le=1
    )


class Generate(Section):
    kind: Literal["extractive", "openai", "transformers", "vllm"] = key(
        "extractive",
        "extractive = sentences of the passages, no model; openai = any OpenAI-compatible server; "
        "transformers = a local causal language model; vllm = engines of the query service, "
        "through ray.serve.llm (for the command line name a server with openai)",
    )
    model: str | None = key(None, "name at the server, or hub id, local path, package:MODULE/PATH")
    base_url: str | None = key(None, "openai: the server, such as http://localhost:8000/v1")
    api_key_env: str = key("OPENAI_API_KEY", "openai: environment variable that holds the key")
    max_tokens: int = key(400, "most tokens of an answer", ge=1)
    temperature: float = key(0.0, "0 = the likeliest token each time", ge=0, le=2)
    timeout_s: float = key(60.0, "openai: seconds to wait for an answer", gt=0)
    retries: int = key(3, "openai: tries again on 429, 5xx and lost connections", ge=0)
    engine_kwargs: dict[str, Any] = key(
        {}, "vllm: arguments of the engine, such as {max_model_len: 8192, tensor_parallel_size: 2}"
    )
    env: dict[str, str] = key({}, "vllm: environment of the engines")
    sentences: int = key(3, "extractive: most sentences of an answer", ge=1)
    min_similarity: float = key(
        0.35,
        "extractive: a sentence less similar to the question than this is no answer; one that "
        "shares no word with it must reach 0.15 more",
    )


class Metadata(Section):
    fields: dict[str, FieldType] = key(
        {}, "declared fields, as typed columns that filters can name, such as {year: int}"
    )
    mismatch: Literal["drop", "fail"] = key(
        "drop",
        "a value that is not of its field's type: drop = the field stays empty, and 'inspect' "
        "counts it; fail = the document is failed",
    )

    @model_validator(mode="after")
    def _names_are_free(self) -> Metadata:
        taken = set(CHUNK.names) | {"vector", "shard", "and", "or", "not"}
        for name in self.fields:
            if name in taken or not name.isidentifier():
                raise ValueError(f"{name!r} cannot be a metadata field: it is reserved or no name")
        return self


class Duplicates(Section):
    near: Literal["none", "mark", "index_once"] = key(
        "mark",
        "near-duplicate documents: none = not looked for; mark = each names the one that it "
        "nearly equals; index_once = and only that one is searched",
    )
    threshold: float = key(
        0.9, "estimated share of common shingles (Jaccard) from which documents are duplicates",
        gt=0, le=1,
    )  # fmt: skip
    shingle: int = key(5, "words of a shingle; a character counts where there are no spaces", ge=1)
    permutations: int = key(
        128, "hashes of a MinHash signature; the estimate's error is at most 0.5 / sqrt of it",
        ge=16, le=1024,
    )  # fmt: skip
    min_words: int = key(20, "shorter texts are duplicates only if they are equal", ge=1)
    seed: int = key(1, "seed of the permutations", ge=0, lt=1 << 32)


class Resources(Section):
    address: str | None = key(
        None,
        "Ray cluster to join (auto, or ray://...); null = join one that is set by "
        "RAY_ADDRESS, else start one on this machine",
    )
    parse_cpus: float = key(1.0, "CPUs of a parse task", gt=0)
    parse_batch: int = key(4, "files per parse task", ge=1)
    chunk_batch: int = key(16, "documents per chunk task", ge=1)
    encoders: int | None = key(None, "encoder workers; null = by the cluster's CPUs or GPUs", ge=1)
    encoder_cpus: float | None = key(None, "CPUs of an encoder worker; null = by the cluster", gt=0)
    encoder_gpus: float = key(0.0, "GPUs of an encoder worker", ge=0)
    encode_batch: int = key(256, "chunks per call of an encoder worker", ge=1)
    estimate_for: int = key(1_000_000, "documents for which the report says what they take", ge=1)
    price_per_hour: float | None = key(
        None, "what an hour of the cluster costs, for the report's estimate", ge=0
    )


class Config(Section):
    """The whole tree. Sections stand in the order of the data's flow."""

    parse: Parse = key(Parse(), "FILE -> DOCUMENT")
    metadata: Metadata = key(Metadata(), "what is known of documents beside their text")
    duplicates: Duplicates = key(Duplicates(), "documents that nearly equal others")
    llm: LanguageModel = key(
        LanguageModel(), "the language model that stages ask (answers have their own: generate)"
    )
    prompts: dict[str, str] = key(
        {}, "templates in place of the library's own, each as text or as file:PATH (docs/llm.md)"
    )
    chunk: Chunk = key(Chunk(), "DOCUMENT -> CHUNK")
    enrich: Enrich = key(Enrich(), "CHUNK -> CHUNK with context")
    embed: Embed = key(Embed(), "CHUNK -> VECTOR")
    sparse: Sparse = key(Sparse(), "CHUNK -> learned sparse vector")
    index: Index = key(Index(), "VECTOR -> INDEX")
    transform: Transform = key(Transform(), "QUERY -> what is searched in its place")
    retrieve: Retrieve = key(Retrieve(), "QUERY -> HITS")
    rerank: Rerank = key(Rerank(), "HITS -> HITS")
    answer: Answer = key(Answer(), "HITS -> passages for the generator")
    generate: Generate = key(Generate(), "passages -> ANSWER")
    guardrails: Guardrails = key(
        Guardrails(), "rules on an answer that need no model (docs/guardrails.md)"
    )
    resources: Resources = key(Resources(), "what the steps take of the cluster")
    service: Service = key(Service(), "the query service")
    max_failed_fraction: Annotated[float, Field(ge=0, le=1)] = key(
        1.0, "exit with code 3 if more of the documents failed (the rest is published)"
    )

    def stored(self) -> dict[str, Any]:
        """The tree as a version keeps it: all but how a service is run."""
        return self.model_dump(mode="json", exclude={"service"})

    @property
    def writes(self) -> Literal["contexts", "facts"] | None:
        """What a language model writes for the chunks at ingest; None for nothing."""
        if self.chunk.strategy == "proposition":
            return "facts"
        return "contexts" if self.enrich.contextual else None

    @model_validator(mode="after")
    def _has_a_language_model(self) -> Config:
        asking = {
            "contexts": f"enrich.kind is {self.enrich.kind}",
            "facts": "chunk.strategy is proposition",
        }
        if self.writes is not None and self.llm.engine == "none":
            raise ValueError(
                f"{asking[self.writes]}, which needs a language model: set llm.engine and llm.model"
            )
        return self

    @model_validator(mode="after")
    def _facts_stand_alone(self) -> Config:
        if self.writes == "facts":
            check_facts(self.enrich.kind, self.embed.mode)
        return self

    @model_validator(mode="after")
    def _has_a_sparse_model(self) -> Config:
        if "splade" in self.retrieve.channels and self.sparse.model is None:
            raise ValueError(
                "retrieve.channels has splade, which searches sparse vectors: set sparse.model, "
                "and ingest with it"
            )
        return self

    @model_validator(mode="after")
    def _queries_have_what_they_need(self) -> Config:
        check_queries(self.transform, self.retrieve, self.rerank, self.llm.engine)
        return self

    @model_validator(mode="after")
    def _dates_are_declared(self) -> Config:
        self.guardrails.check(self.metadata.fields)
        return self

    @field_validator("prompts")
    @classmethod
    def _prompts_fit(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            return {name: prompts.check(name, text) for name, text in value.items()}
        except ConfigError as error:
            raise ValueError(str(error)) from None
