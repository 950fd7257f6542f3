"""The Elasticsearch engine in trouble: busy servers, lost connections, wrong credentials."""

import json
import pickle
from collections.abc import Iterator

import pytest
from elastic_servers import Proxy, Server, free_port, opensearch_process
from test_elastic_contract import chunk, config_of, loaded, new_target, random_texts, table

from rag_cluster import config as configuration
from rag_cluster.errors import ConfigError, FilterError, IngestError, ServiceError
from rag_cluster.index import elastic
from rag_cluster.index.elastic_client import Target, server_url
from rag_cluster.index.elastic_mapping import ANALYZERS, analyzer_name, index_body, indexed_value
from rag_cluster.index.elastic_query import MAX_DEPTH, to_query
from rag_cluster.index.filters import parse_filter

CHUNKS = 250  # three bulk requests of a hundred
SECRET = "s3cret-of-the-test"


@pytest.fixture(scope="module")
def process() -> Iterator[Server]:
    with opensearch_process() as process:
        yield process


@pytest.fixture
def proxy(process: Server) -> Iterator[Proxy]:
    with Proxy(process.url, product=False) as made:  # OpenSearch does not send the product header
        yield made


def load(proxy: Proxy, *faults: int | str, retries: int = 4) -> list[int]:
    """Loads chunks through a proxy with faults; the sizes of the bulk requests that it saw."""
    config = config_of(Server(proxy.url, "opensearch"), f"index.lexical.elastic.retries={retries}")
    proxy.faults[:] = faults
    texts = random_texts(CHUNKS)
    target = new_target(config)
    index = loaded(target, config, table([chunk(i, text) for i, text in enumerate(texts)]))
    assert len(index.search(" ".join(f"w{i}" for i in range(30)), 999)[0]) == CHUNKS
    index.close()
    elastic.delete(target, config)
    return proxy.bulk_sizes


@pytest.mark.parametrize(
    "fault", [429, 503, "lost", "lost answer"], ids=["busy", "restarting", "lost", "answer lost"]
)
def test_what_failed_is_sent_again(proxy: Proxy, fault: int | str) -> None:
    assert load(proxy, fault, fault) == [100, 100, 100, 100, 50]


def test_only_the_items_that_were_turned_away_are_sent_again(proxy: Proxy) -> None:
    assert load(proxy, "items", "items") == [100, 50, 25, 100, 50]


def test_a_server_that_stays_busy(proxy: Proxy) -> None:
    with pytest.raises(ServiceError, match=r"loading index .* too busy \(429\).*retries") as caught:
        load(proxy, *[429] * 9, retries=2)
    assert proxy.url in str(caught.value)
    assert proxy.bulk_sizes == [100] * 3


def test_a_connection_that_stays_lost(proxy: Proxy) -> None:
    with pytest.raises(ServiceError, match=r"cannot be reached: .*ELASTICSEARCH_URL"):
        load(proxy, *["lost"] * 9, retries=2)
    assert proxy.bulk_sizes == [100] * 3


def test_items_that_stay_turned_away(proxy: Proxy) -> None:
    with pytest.raises(IngestError, match=r"refused 25 of 250 .*25 es_rejected.*queue is full"):
        load(proxy, "items", "items", retries=1)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, r"refused the credentials \(401\): set ELASTICSEARCH_API_KEY, or ELASTICSEARCH_USER"),
        (403, r"not allowed \(403\)"),
        (406, r"not Elasticsearch 9: .*api: opensearch"),
        (500, r"the server answered 500: es_rejected_execution: busy"),
    ],
)
def test_refusals_say_what_to_do(proxy: Proxy, status: int, message: str) -> None:
    with pytest.raises(ServiceError, match=message):
        load(proxy, status)


def test_credentials_come_from_the_environment_and_stay_there(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_of(Server(proxy.url, "opensearch"))
    elastic.check(config)
    monkeypatch.setenv("ELASTICSEARCH_USER", "loader")
    with pytest.raises(ConfigError, match="ELASTICSEARCH_PASSWORD is not set"):
        elastic.check(config)
    monkeypatch.setenv("ELASTICSEARCH_PASSWORD", SECRET)
    elastic.check(config)
    monkeypatch.setenv("ELASTICSEARCH_API_KEY", SECRET)
    elastic.check(config)
    nothing, basic, key = proxy.authorization
    assert nothing is None
    assert (basic or "").startswith("Basic ")
    assert key == f"ApiKey {SECRET}"
    target = new_target(config)
    kept = (
        json.dumps(target.to_manifest()) + repr(pickle.dumps(target)) + configuration.render(config)
    )
    assert SECRET not in kept
    proxy.faults.append(401)
    with pytest.raises(ServiceError) as caught:
        loaded(target, config, table([chunk(0, "word")]))
    assert SECRET not in str(caught.value)


def test_a_server_that_is_not_there() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    config = config_of(Server(url, "elasticsearch"), "index.lexical.elastic.retries=1")
    with pytest.raises(ServiceError, match=f"Elasticsearch at {url}: cannot be reached"):
        elastic.check(config)


def test_a_server_of_the_other_kind(process: Server, proxy: Proxy) -> None:
    message = r"not Elasticsearch 9: for OpenSearch set .*api: opensearch"
    for url in (process.url, proxy.url):  # one refuses the media type, one lacks the header
        with pytest.raises(ServiceError, match=message):
            loaded_once(url)


def loaded_once(url: str) -> None:
    config = config_of(Server(url, "elasticsearch"), "index.lexical.elastic.retries=0")
    loaded(new_target(config), config, table([chunk(0, "word")]))


def test_a_server_without_encryption(
    process: Server, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = process.url.replace("http:", "https:")
    config = config_of(Server(url, "opensearch"), "index.lexical.elastic.retries=0")
    with pytest.raises(ServiceError, match=r"no secure connection: .*ELASTICSEARCH_CA_FILE"):
        elastic.check(config)
    monkeypatch.setenv("ELASTICSEARCH_CA_FILE", "/nowhere/ca.pem")
    with pytest.raises(ConfigError, match=r"names /nowhere/ca\.pem, which is not a file"):
        elastic.check(config)


def test_an_analyzer_that_the_server_does_not_know(process: Server) -> None:
    config = config_of(process, "index.lexical.elastic.analyzer=klingon")
    with pytest.raises(ServiceError, match=r"the server answered 400: .*klingon"):
        elastic.create(new_target(config), config)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://localhost:9200/", "http://localhost:9200"),
        ("http://localhost", "http://localhost:9200"),
        ("https://cloud.example/search/", "https://cloud.example:443/search"),
        ("http://[::1]:9201", "http://[::1]:9201"),
    ],
)
def test_addresses(url: str, wanted: str) -> None:
    assert server_url(url) == wanted


@pytest.mark.parametrize(
    "url", ["localhost:9200", "ftp://a", "http://", "http://a:x", "http://a?b"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError, match=r"must be an address such as https://host:9200"):
        server_url(url)


def test_an_address_with_a_password_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match=r"holds credentials.*ELASTICSEARCH_API_KEY") as caught:
        server_url(f"https://elastic:{SECRET}@host:9200")
    assert SECRET not in str(caught.value)


def test_where_the_address_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ELASTICSEARCH_URL", raising=False)
    with pytest.raises(ConfigError, match=r"set index\.lexical\.elastic\.url or ELASTICSEARCH_URL"):
        server_url(None)
    assert server_url(None, "http://recorded:1") == "http://recorded:1"
    monkeypatch.setenv("ELASTICSEARCH_URL", "http://environment:2")
    assert server_url(None, "http://recorded:1") == "http://environment:2"
    assert server_url("http://set:3", "http://recorded:1") == "http://set:3"


def test_names_of_indexes() -> None:
    config = configuration.load(None, ["index.lexical.elastic.url=http://a"]).index.lexical
    target = elastic.target_of(config, "/data/Filings 2024", "v7")
    assert target.alias.startswith("rag-filings-2024-")
    assert target.index == f"{target.alias}-v7"
    assert elastic.target_of(config, "/other/Filings 2024", "v7").index != target.index
    assert elastic.target_of(config, "/data/日本", "v1").alias.startswith("rag-collection-")
    assert Target.of_manifest({"kind": "x", **target.to_manifest()}) == target
    with pytest.raises(ConfigError, match=r"index\.lexical\.elastic\.index"):
        configuration.load(None, ["index.lexical.elastic.index=Upper"])


@pytest.mark.parametrize(
    ("language", "analyzer"),
    [("english", "english"), ("de", "german"), ("ja", "cjk"), ("chinese", "cjk"), ("ko", "cjk"),
     ("none", "standard"), ("polish", "standard")],
)  # fmt: skip
def test_analyzers(language: str, analyzer: str) -> None:
    config = configuration.Lexical(language=language)
    assert analyzer_name(config) == analyzer
    own = configuration.Elastic(analyzer="polish")
    assert analyzer_name(config.model_copy(update={"elastic": own})) == "polish"


def test_every_language_analyzer_is_one_of_a_language() -> None:
    from rag_cluster.index.analyzer import CODES

    assert set(CODES.values()) >= ANALYZERS


def test_no_field_becomes_a_mapping_by_itself() -> None:
    config = configuration.Lexical()
    target = Target("http://a", "elasticsearch", "a-v1", "a", "c")
    mappings = index_body(target, config, {"_id": "keyword"})["mappings"]
    assert mappings["dynamic"] is False
    assert mappings["properties"]["metadata"] == {
        "dynamic": False, "properties": {"_id": {"type": "keyword"}},
    }  # fmt: skip


def test_long_terms_keep_their_order_and_their_difference() -> None:
    long = "ä" * 40_000
    first, second = indexed_value(long + "1"), indexed_value(long + "2")
    assert first != second
    assert first == indexed_value(long + "1")
    assert len(first.encode()) < 32_766
    assert "a" < first < "ö"
    assert indexed_value("x" * 32_000) == "x" * 32_000


def query(tree: dict[str, object]) -> dict[str, object]:
    parsed = parse_filter(tree, {"year": "int", "note": "text"})
    assert parsed is not None
    return to_query(parsed, {"year": "int", "note": "text"})


def test_translated_filters_are_flat() -> None:
    year = {"term": {"metadata.year": {"value": 1}}}
    kind = {"term": {"kind": {"value": "x"}}}
    assert query({"and": [{"year": 1}, {"and": [{"kind": "x"}, {"year": 1}]}]}) == {
        "bool": {"filter": [year, kind, year]}
    }
    assert query({"or": [{"or": [{"year": 1}, {"kind": "x"}]}, {"note": "n"}]}) == {
        "bool": {
            "should": [year, kind, {"term": {"exact.note": {"value": "n"}}}],
            "minimum_should_match": 1,
        }
    }
    assert query({"not": {"not": {"year": 1}}}) == year


def test_filters_that_a_server_cannot_take() -> None:
    tree: dict[str, object] = {"year": 1}
    for number in range(30):
        tree = {"or" if number % 2 else "and": [tree, {"kind": "x"}]}
    with pytest.raises(FilterError, match=f"31 levels, and {MAX_DEPTH} are possible"):
        query(tree)
    with pytest.raises(FilterError, match="'kind': the value is not valid text"):
        query({"kind": "\ud800"})
