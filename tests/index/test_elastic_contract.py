"""What the engine must do on every server: the process that tests bring, and one that is named.

ELASTICSEARCH_URL=http://localhost:9200 ELASTICSEARCH_API=elasticsearch pytest THIS_FILE
"""

import datetime
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from elastic_servers import Proxy, Server, named_server, opensearch_process
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_cluster import config as configuration
from rag_cluster.config import Config
from rag_cluster.errors import CollectionError, ConfigError, IngestError
from rag_cluster.index import elastic, lexical
from rag_cluster.index.elastic_client import Target, connect
from rag_cluster.index.elastic_mapping import MAX_TERM_BYTES
from rag_cluster.index.elastic_search import ElasticIndex
from rag_cluster.index.filters import parse_filter
from rag_cluster.schema import chunk_schema, rows_to_table

FIELDS = {
    "company": "keyword",
    "note": "text",
    "year": "int",
    "price": "float",
    "audited": "bool",
    "filed": "date",
}
LONG = "long " * (MAX_TERM_BYTES // 5)
TEXTS = ["", "a", "A", "b", "3M", "a b", "é", "日本", "z\U0001f600", LONG + "1", LONG + "2"]
VALUES: dict[str, list[Any]] = {
    "company": TEXTS,
    "note": TEXTS,
    "year": [1 - 2**63, -1, 0, 2018, 2019, 2**53 + 1, 2**63 - 1],
    "price": [-1.5, 0.0, 0.1, 1e300],
    "audited": [True, False],
    "filed": [datetime.date(*day) for day in [(1, 1, 1), (1969, 12, 31), (2024, 2, 29)]],
    "kind": ["section", "table"],
    "role": ["body", "references", "index"],
}
UNUSUAL = ("", 1 - 2**63, 2**53 + 1, 2**63 - 1)
ROWS = 200
SERVERS = ["process", "media type", "named"]


def chunk(number: int, text: str, **more: Any) -> dict[str, Any]:
    return {
        "chunk_id": f"c{number:06d}", "doc_id": f"d{number // 2:06d}", "ordinal": number % 2,
        "uri": f"/docs/{number}.md", "title": "T", "kind": "section", "role": "body",
        "searchable": True, "section_path": "", "header": "", "context": "", "text": text, **more,
    }  # fmt: skip


def table(rows: list[dict[str, Any]], fields: dict[str, str] | None = None) -> pa.Table:
    return rows_to_table(rows, chunk_schema(FIELDS if fields is None else fields))


def config_of(server: Server, *more: str) -> Config:
    fields = ", ".join(f"{name}: {kind}" for name, kind in FIELDS.items())
    return configuration.load(
        None,
        [
            f"metadata.fields={{{fields}}}",
            "index.lexical.kind=elasticsearch",
            "index.lexical.language=none",
            f"index.lexical.elastic.url={server.url}",
            f"index.lexical.elastic.api={server.api}",
            "index.lexical.elastic.backoff_s=0.01",
            "index.lexical.elastic.max_backoff_s=0.05",
            "index.lexical.elastic.bulk_chunks=100",
            *more,
        ],
    )


def new_target(config: Config, version: str = "v1", collection: str | None = None) -> Target:
    name = collection or f"/tests/Contract {uuid.uuid4().hex[:8]}"
    return elastic.target_of(config.index.lexical, name, version)


def opened(target: Target, config: Config, chunks: int) -> ElasticIndex:
    manifest = {
        "config": config.model_dump(mode="json"),
        "lexical": config.index.lexical.model_dump(mode="json") | target.to_manifest(),
        "searchable": chunks,
    }
    return ElasticIndex.open(manifest, config)


def loaded(target: Target, config: Config, chunks: pa.Table) -> ElasticIndex:
    elastic.create(target, config)
    count = elastic.load_shard(target, chunks, config)
    elastic.finish(target, config, count)
    return opened(target, config, count)


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "named":
        named = named_server()
        if named is None:
            pytest.skip("no server is named by ELASTICSEARCH_URL")
        yield named
        return
    with opensearch_process() as process:
        if request.param == "process":
            yield process
        else:  # the client as Elasticsearch sees it, whatever stands behind
            with Proxy(process.url, media_type=True) as proxy:
                yield Server(proxy.url, "elasticsearch")


@pytest.fixture(scope="module")
def config(server: Server) -> Config:
    return config_of(server)


class Filled:
    """Rows with all kinds of values, loaded."""

    def __init__(self, config: Config) -> None:
        generator = np.random.default_rng(5)
        rows = []
        for number in range(ROWS):
            values = {
                name: choices[generator.integers(len(choices))]
                for name, choices in VALUES.items()
                if name in ("kind", "role") or generator.random() < 0.8
            }
            rows.append(chunk(number, "word", **values))
        self.table = table(rows)
        self.target = new_target(config)
        self.index = loaded(self.target, config, self.table)

    def found(self, tree: dict[str, Any] | None, exclude_roles: tuple[str, ...] = ()) -> set[str]:
        ids, _ = self.index.search("word", ROWS, parse_filter(tree, FIELDS), exclude_roles)
        return set(ids)

    def wanted(self, tree: dict[str, Any]) -> set[str]:
        parsed = parse_filter(tree, FIELDS)
        assert parsed is not None
        return set(self.table.filter(pa.array(parsed.mask(self.table)))["chunk_id"].to_pylist())


@pytest.fixture(scope="module")
def filled(config: Config) -> Iterator[Filled]:
    made = Filled(config)
    yield made
    made.index.close()
    elastic.delete(made.target, config)


def comparisons(field: str) -> st.SearchStrategy[dict[str, Any]]:
    value = st.sampled_from(VALUES[field])
    # osmem-server takes an empty bound for no bound, and compares integers as float64.
    bound = st.sampled_from([known for known in VALUES[field] if known not in UNUSUAL])
    one = st.dictionaries(st.sampled_from(["eq", "ne"]), value, min_size=1)
    order = st.dictionaries(st.sampled_from(["gt", "gte", "lt", "lte"]), bound, min_size=1)
    several = st.lists(value, max_size=3)
    return st.one_of(one, several, value, one if field == "audited" else order).map(
        lambda condition: {field: condition}
    )


def combined(parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(
        st.tuples(st.sampled_from(["and", "or"]), lists).map(lambda pair: {pair[0]: pair[1]}),
        parts.map(lambda part: {"not": part}),
    )


FILTERS = st.recursive(st.sampled_from(list(VALUES)).flatmap(comparisons), combined, max_leaves=6)


@settings(max_examples=40, deadline=None)
@given(tree=FILTERS)
def test_a_filter_matches_the_rows_of_the_mask(filled: Filled, tree: dict[str, Any]) -> None:
    assert filled.found(tree) == filled.wanted(tree)


@pytest.mark.parametrize("field", VALUES)
def test_each_value_is_found_by_itself(filled: Filled, field: str) -> None:
    for value in VALUES[field]:
        for tree in ({field: value}, {field: {"ne": value}}, {"not": {field: [value]}}):
            assert filled.found(tree) == filled.wanted(tree)


def test_excluded_roles_and_a_filter_together(filled: Filled) -> None:
    roles = ("references", "index")
    everything = filled.found(None)
    assert len(everything) == ROWS
    assert filled.found(None, roles) == everything - filled.wanted({"role": list(roles)})
    assert filled.found({"kind": "table"}, roles) == filled.wanted(
        {"kind": "table", "not": {"role": list(roles)}}
    )


WORDS = [f"w{number}" for number in range(30)]


def random_texts(count: int, seed: int = 3) -> list[str]:
    generator = np.random.default_rng(seed)
    # Lucene rounds the lengths of longer texts.
    return [" ".join(generator.choice(WORDS, generator.integers(1, 20))) for _ in range(count)]


@pytest.mark.parametrize("more", [[], ["index.lexical.k1=0.4", "index.lexical.b=0.1"]], ids=str)
def test_scores_and_order_are_those_of_the_formula(server: Server, more: list[str]) -> None:
    config = config_of(server, *more)
    texts = random_texts(250)
    target = new_target(config)
    index = loaded(target, config, table([chunk(i, text) for i, text in enumerate(texts)]))
    shard = lexical.build_shard(
        texts, lexical.statistics(texts, config.index.lexical), config.index.lexical
    )
    weighted = [{"w1": 1.0, "w2 w7": 0.3}, {"w4 unknown": 0.2, "\ud800": 1.0}, {"unknown": 1.0}]
    for query in ("w1", "w2 w7 w29", "w4 unknown", "unknown", "", "\ud800", *weighted):
        if isinstance(query, str):
            scores, rows = shard.search([query], 40)
        else:
            scores, rows = shard.search_words(query, 40)
        ids, found = index.search(query, 40)
        best = rows[0][rows[0] >= 0]
        assert len(found) == len(best)
        if server == named_server():  # osmem-server has a formula of its own
            np.testing.assert_allclose(found, scores[0][: len(best)], rtol=1e-5)
        assert len(set(ids)) == len(ids)
        pairs = list(zip(-found, ids, strict=True))
        assert pairs == sorted(pairs)  # ties in the order of the rows
        assert (np.asarray(found) > 0).all()
    index.close()
    elastic.delete(target, config)


def test_a_word_counts_by_its_weight(config: Config) -> None:
    target = new_target(config)
    texts = ["red and more", "blue and more", "red blue"]
    index = loaded(target, config, table([chunk(i, text) for i, text in enumerate(texts)]))
    for words, best in (
        ({"red": 1.0, "blue": 0.01}, ["c000002", "c000000", "c000001"]),
        ({"red": 0.01, "blue": 1.0}, ["c000002", "c000001", "c000000"]),
    ):
        assert index.search(words, 5)[0] == best
    index.close()
    elastic.delete(target, config)


def test_more_hits_may_be_asked_for_than_servers_give_by_default(config: Config) -> None:
    target = new_target(config)
    index = loaded(target, config, table([chunk(number, "word") for number in range(30)]))
    for k in (1, 29, 30, 10_001, 2_000_000):
        assert index.search("word", k)[0] == [f"c{number:06d}" for number in range(min(k, 30))]
    index.close()
    elastic.delete(target, config)


def test_context_and_header_are_indexed_and_parents_are_not(config: Config) -> None:
    rows = [
        chunk(0, "plain"),
        chunk(1, "plain", context="Manual", header="| pressure |"),
        chunk(2, "plain", searchable=False),
    ]
    target = new_target(config)
    index = loaded(target, config, table(rows))
    assert index.search("manual", 5)[0] == index.search("pressure", 5)[0] == ["c000001"]
    assert index.search("plain", 5)[0] == ["c000000", "c000001"]
    index.close()
    elastic.delete(target, config)


def test_the_index_is_as_the_configuration_says(server: Server) -> None:
    config = config_of(
        server,
        "index.lexical.language=en",
        "index.lexical.k1=0.9",
        "index.lexical.elastic.replicas=2",
        "index.lexical.elastic.refresh_interval=7s",
    )
    target = new_target(config)
    elastic.create(target, config)
    client = connect(server.url, config.index.lexical.elastic)
    loading = client.indices.get(index=target.index)[target.index]
    assert loading["settings"]["index"]["number_of_replicas"] == "0"
    assert loading["settings"]["index"]["refresh_interval"] == "-1"
    elastic.load_shard(target, table([chunk(0, "the running pumps")]), config)
    elastic.finish(target, config, 1)
    made = client.indices.get(index=target.index)[target.index]
    client.close()
    assert made["settings"]["index"]["number_of_replicas"] == "2"
    assert made["settings"]["index"]["refresh_interval"] == "7s"
    assert float(made["settings"]["index"]["similarity"]["chunks"]["k1"]) == 0.9
    assert made["mappings"]["dynamic"] == "false"
    types = {
        k: v["type"] for k, v in made["mappings"]["properties"]["metadata"]["properties"].items()
    }
    assert types == {
        "company": "keyword", "note": "text", "year": "long", "price": "double",
        "audited": "boolean", "filed": "date",
    }  # fmt: skip
    index = opened(target, config, 1)
    assert index.search("pump runs", 5)[0] == ["c000000"]
    assert index.search("the", 5)[0] == []
    index.close()
    elastic.delete(target, config)


def test_loading_again_changes_nothing(config: Config) -> None:
    target = new_target(config)
    chunks = table([chunk(number, text) for number, text in enumerate(random_texts(50))])
    first = loaded(target, config, chunks)
    before = first.search("w1 w2", 50)
    elastic.load_shard(target, chunks, config)
    elastic.finish(target, config, 50)
    after = first.search("w1 w2", 50)
    assert before[0] == after[0]
    np.testing.assert_array_equal(before[1], after[1])
    first.close()
    elastic.delete(target, config)


def test_refused_chunks_are_all_counted_and_some_shown(config: Config) -> None:
    target = new_target(config)
    elastic.create(target, config)
    fields = FIELDS | {"year": "keyword"}
    other = config.model_copy(update={"metadata": configuration.Metadata(fields=fields)})
    rows = [chunk(n, "word", year="no year" if n % 50 == 7 else None) for n in range(250)]
    with pytest.raises(
        IngestError, match=r"refused 5 of 250 chunks \(5 \w+\); chunk c000007: .*year"
    ):
        elastic.load_shard(target, table(rows, fields), other)
    elastic.delete(target, config)


def test_a_count_that_is_wrong_is_found(config: Config) -> None:
    target = new_target(config)
    loaded(target, config, table([chunk(0, "word")])).close()
    with pytest.raises(IngestError, match="holds 1 chunks instead of 2"):
        elastic.finish(target, config, 2)
    with pytest.raises(CollectionError, match="holds 1 chunks, but the collection has 2"):
        opened(target, config, 2)
    elastic.delete(target, config)


def test_versions_behind_an_alias(config: Config, server: Server) -> None:
    name = f"/tests/{uuid.uuid4().hex}"
    first, second = (new_target(config, version, name) for version in ("v1", "v2"))
    assert first.alias == second.alias
    client = connect(server.url, config.index.lexical.elastic)
    for number, target in enumerate((first, second), 1):
        loaded(target, config, table([chunk(number, "word")])).close()
        elastic.publish(target, config)
        elastic.publish(target, config)  # twice is as good as once
        assert set(client.indices.get_alias(name=target.alias)) == {target.index}
    reader = opened(first, config, 1)  # a reader of the old version keeps it
    assert reader.search("word", 5)[0] == ["c000001"]
    elastic.publish(first, config)
    assert set(client.indices.get_alias(name=first.alias)) == {first.index}
    assert elastic.sweep(first, config, keep={first.index}) == [second.index]
    assert elastic.sweep(first, config, keep={first.index}) == []
    elastic.delete(first, config)
    elastic.delete(first, config)
    with pytest.raises(CollectionError, match=r"is not at http.*it was deleted"):
        reader.search("word", 5)
    reader.close()
    client.close()


def test_an_interrupted_run_is_replaced_and_another_collection_is_not(server: Server) -> None:
    config = config_of(server, f"index.lexical.elastic.index=tests-{uuid.uuid4().hex}")
    mine = new_target(config, collection="/a")
    elastic.create(mine, config)
    elastic.load_shard(mine, table([chunk(9, "left behind")]), config)
    loaded(mine, config, table([chunk(0, "word")])).close()
    theirs = new_target(config, collection="/b")
    assert theirs.index == mine.index
    with pytest.raises(ConfigError, match=r"is not of this collection: set .*elastic\.index"):
        elastic.create(theirs, config)
    assert elastic.sweep(theirs, config, keep=()) == []
    elastic.delete(mine, config)
