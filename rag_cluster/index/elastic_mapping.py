"""What a version's index looks like on the server: settings, mapping, and a chunk as a document.

The mapping is explicit and closed (`dynamic: false`): a field never becomes a mapping by itself.
Declared metadata fields stand under `metadata`, so that their names cannot clash with the server's
own; fields of type text are there as full text, and under `exact` as the keyword that filters use.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from rag_cluster.config import Lexical
from rag_cluster.index.analyzer import language_name
from rag_cluster.index.elastic_client import Target
from rag_cluster.index.filters import BUILT_IN
from rag_cluster.schema import indexed_text
from rag_cluster.work import SPARSE

TYPES = {
    "keyword": "keyword",
    "text": "text",
    "int": "long",
    "float": "double",
    "bool": "boolean",
    "date": "date",
}

# Language analyzers that Elasticsearch and OpenSearch bring; other languages are only cut into
# words and put into lower case.
ANALYZERS = {
    "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "english", "estonian",
    "finnish", "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian",
    "lithuanian", "norwegian", "persian", "portuguese", "romanian", "russian", "serbian",
    "spanish", "swedish", "thai", "turkish",
}  # fmt: skip
BIGRAMS = {"chinese", "japanese", "korean"}

# Lucene refuses a term of more than 32,766 bytes.
MAX_TERM_BYTES = 32_000
KEPT_BYTES = 31_000
BATCH_ROWS = 1000

# A search gives so many hits in one answer; servers allow 10,000 by default.
MOST_HITS = 1_000_000

SPARSE_FIELD = "splade"
SMALLEST_WEIGHT = 1.2e-38

COLUMNS = ["chunk_id", "ordinal", "context", "header", "text", *BUILT_IN]


def analyzer_name(config: Lexical) -> str:
    """The server's analyzer for the configured language. Raises ConfigError if it is unknown."""
    if config.elastic.analyzer:
        return config.elastic.analyzer
    language = language_name(config.language)
    if language in BIGRAMS:
        return "cjk"
    return language if language in ANALYZERS else "standard"


def index_body(
    target: Target, config: Lexical, fields: Mapping[str, str], *, sparse: bool = False
) -> dict[str, Any]:
    """Settings and mapping of an index that is about to be loaded: no refresh, no replicas.

    With `sparse` chunks have a learned sparse vector. It is of type rank_features, which both
    servers know without a plugin, and which keeps 9 significant bits of a weight.
    """
    analyzer = analyzer_name(config)
    full_text = {"type": "text", "analyzer": analyzer, "similarity": "chunks"}
    keywords: dict[str, Any] = {name: {"type": "keyword"} for name in BUILT_IN}
    metadata: dict[str, Any] = {}
    exact: dict[str, Any] = {}
    for name, kind in fields.items():
        metadata[name] = {"type": TYPES[kind]}
        if kind == "text":
            metadata[name]["analyzer"] = analyzer
            exact[name] = {"type": "keyword"}
        elif kind == "date":
            metadata[name]["format"] = "strict_date"
    return {
        "settings": {
            "number_of_shards": config.elastic.shards,
            "number_of_replicas": 0,
            "refresh_interval": "-1",
            "max_result_window": MOST_HITS,
            "similarity": {"chunks": {"type": "BM25", "k1": config.k1, "b": config.b}},
        },
        "mappings": {
            "dynamic": False,
            "_meta": {"made_by": "rag-cluster", "collection": target.collection},
            "properties": {
                "text": full_text,
                **keywords,
                "ordinal": {"type": "integer"},
                **({SPARSE_FIELD: {"type": "rank_features"}} if sparse else {}),
                "metadata": {"dynamic": False, "properties": metadata},
                "exact": {"dynamic": False, "properties": exact},
            },
        },
    }


def field_path(field: str, fields: Mapping[str, str]) -> str:
    """Where a filter finds a field of the collection."""
    if field not in fields:
        return field
    return f"exact.{field}" if fields[field] == "text" else f"metadata.{field}"


def actions(chunks: pa.Table, fields: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """A bulk action for each chunk. `create`, so that sending it twice leaves one document."""
    sparse = [name for name in SPARSE.names if name in chunks.column_names]
    for batch in chunks.select([*COLUMNS, *fields, *sparse]).to_batches(max_chunksize=BATCH_ROWS):
        for row in batch.to_pylist():
            yield {"_op_type": "create", "_id": row["chunk_id"], "_source": _document(row, fields)}


def _document(row: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    document: dict[str, Any] = {name: indexed_value(row[name]) for name in BUILT_IN}
    document["ordinal"] = row["ordinal"]
    document["text"] = indexed_text(row["context"], row["header"], row["text"])
    if "terms" in row:
        # The servers take no dots in names, nor numbers that are too small to be normal.
        weights = zip(row["terms"], row["weights"], strict=True)
        document[SPARSE_FIELD] = {str(t): w for t, w in weights if w >= SMALLEST_WEIGHT}
    known = {name: row[name] for name in fields if row[name] is not None}
    document["metadata"] = {
        name: value if fields[name] == "text" else indexed_value(value)
        for name, value in known.items()
    }
    document["exact"] = {
        name: indexed_value(value) for name, value in known.items() if fields[name] == "text"
    }
    return document


def indexed_value(value: Any) -> Any:
    """A value as it stands in the index; a filter's values go the same way.

    Of a text that is too long for a term its beginning and a hash are kept: equal texts stay
    equal, different ones different, and the order stays that of the beginnings.
    """
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float):
        return value + 0.0  # the index tells -0.0 from 0.0
    if isinstance(value, str) and len(data := value.encode()) > MAX_TERM_BYTES:
        beginning = data[:KEPT_BYTES].decode("utf-8", "ignore")
        return beginning + hashlib.blake2b(data, digest_size=16).hexdigest()
    return value
