"""Two tenants with keys of their own: no route shows one anything of the other.

Every route of the app is named here: a new one fails a test until it is known what it shows.
"""

import itertools
import json
import time

import pytest
from api_service import ACME, SHARED, events_of, running

from rag_cluster.storage import Collection
from serve.key_writing import add_key, remove_key

# What each route shows of the collection, and so by which test it is tried below.
PUBLIC = {"/healthz", "/readyz", "/openapi.json", "/", "/page/{name}"}
# Nothing of the collection: models work on what they are given, and names are the service's.
EMPTY = {"/v1/rerank", "/v1/embeddings", "/v1/models", "/v1/models/{model}"}
# Counts over all tenants, for keys without a filter.
OPERATORS = {"/metrics"}
SHOWING = {
    "/v1/search", "/v1/ask", "/v1/chat/completions", "/v1/collection", "/v1/documents/{doc_id}",
    "/v1/documents/{doc_id}/pages/{page}", "/v1/chunks/{chunk_id}",
}  # fmt: skip

QUESTIONS = ["How fast does the globex rotor turn?", "globex", "globex turbine weighs kilograms",
             "boats sold in the harbour in 2020", "rotor", "What does Globex Press weigh?",
             SHARED]  # fmt: skip
# Filters that would widen what a key sees, were they not and-ed with its own.
WIDENING = [
    None,
    {"tenant": "globex"},
    {"or": [{"tenant": "globex"}, {"tenant": "acme"}]},
    {"or": [{"tenant": "acme"}, {"not": {"tenant": "acme"}}]},
    {"not": {"tenant": "acme"}},
    {"not": {"and": [{"tenant": "acme"}, {"year": 1}]}},
    {"tenant": {"ne": "acme"}},
    {"tenant": {"gte": ""}},
    {"$or": [{"$not": {"tenant": "nobody"}}]},
    {"title": {"in": ["globex report 2020", "Globex turbine"]}},
    {"uri": {"gt": ""}},
]
OPTIONS = [{}, {"channels": ["bm25"]}, {"channels": ["dense"]}, {"transform": "feedback"},
           {"top_k": 100}]  # fmt: skip


def paths_of(app):
    return {route.path for route in app.routes}


def test_every_route_is_known(keyed):
    assert paths_of(keyed.app) == PUBLIC | EMPTY | OPERATORS | SHOWING


def test_no_route_but_the_public_ones_answers_without_a_key(keyed):
    with keyed.client() as nobody, keyed.client("rag-guessed") as guesser:
        for route in keyed.app.routes:
            for method in route.methods - {"HEAD"}:
                for client in (nobody, guesser):
                    reply = client.request(method, route.path, json={})
                    if route.path in PUBLIC:
                        assert reply.status_code != 401, route.path
                    else:
                        assert reply.status_code == 401, route.path
                        assert reply.json()["error"]["code"] == "invalid_api_key"
                        assert reply.headers["www-authenticate"] == "Bearer"


def test_without_a_key_nothing_is_told_of_what_else_is_wrong(keyed):
    with keyed.client() as nobody:
        for content in (b"{", b'{"query": 1}', b""):
            assert nobody.post("/v1/search", content=content).status_code == 401


def test_a_key_may_come_in_either_header(keyed, keys):
    with keyed.client() as client:
        for headers in ({"Authorization": f"bearer {keys['acme']}"}, {"x-api-key": keys["acme"]}):
            assert client.get("/v1/models", headers=headers).status_code == 200
        for headers in ({"Authorization": keys["acme"]}, {"Authorization": "Basic abc"},
                        {"Authorization": f"Bearer {keys['acme']}x"}):  # fmt: skip
            assert client.get("/v1/models", headers=headers).status_code == 401
        assert client.get("/v1/models", params={"api_key": keys["acme"]}).status_code == 401


@pytest.fixture(scope="module")
def clients(keyed, keys):
    with (
        keyed.client(keys["acme"]) as acme,
        keyed.client(keys["globex"]) as globex,
        keyed.client(keys["admin"]) as admin,
    ):
        yield {"acme": acme, "globex": globex, "admin": admin}


def hits_of(client, query, **options):
    reply = client.post("/v1/search", json={"query": query, "top_k": 100} | options)
    assert reply.status_code == 200, reply.text
    return reply.json()["hits"]


@pytest.fixture(scope="module")
def owned(clients):
    """The ids of each tenant's documents and chunks, as the key without a filter sees them."""
    found = {}
    for name in ("acme", "globex"):
        where = {"or": [{"tenant": name}, {"author": f"{name.capitalize()} Press"}]}
        hits = hits_of(clients["admin"], "rotor turbine boats visitor ferry", filter=where)
        found[name] = hits
    assert {len({hit["doc_id"] for hit in hits}) for hits in found.values()} == {6, 7}
    return found


def secrets_of(hits):
    """What would give a tenant away: ids, uris and the words that only it has."""
    return (
        {hit["doc_id"] for hit in hits}
        | {hit["chunk_id"] for hit in hits}
        | {hit["uri"].rpartition("/")[2] for hit in hits if "reports.jsonl" not in hit["uri"]}
        | {"7731 rounds", '"7731"', "globex sold", "The globex", "Globex"}
    )


@pytest.fixture(scope="module")
def check(owned):
    secrets = secrets_of(owned["globex"])

    def check(shown, asked=""):
        """Nothing of globex stands in the text, but what the asker wrote."""
        text = shown.replace(json.dumps(asked)[1:-1], "") if asked else shown
        leaked = [secret for secret in secrets if secret in text]
        assert not leaked, (leaked, shown[:2000])

    return check


def test_what_is_looked_for_is_what_the_other_sees(clients, check):
    """Or the checks would find no leak, whatever leaks."""
    for name in ("admin", "globex"):
        with pytest.raises(AssertionError):
            check(clients[name].post("/v1/search", json={"query": "rotor"}).text)


def test_the_documents_that_both_have_are_marked(tenants):
    """One names the other, across the tenants."""
    table = Collection.open(tenants).documents(["uri", "duplicate_of"]).to_pylist()
    marked = [row["uri"] for row in table if row["duplicate_of"] is not None]
    assert [uri.rpartition("/")[2] for uri in marked] in (["globex-rules.md"], ["acme-rules.md"])


@pytest.mark.parametrize("where", WIDENING, ids=str)
def test_a_search_and_an_answer_show_what_is_ones_own(clients, check, where):
    acme = clients["acme"]
    asked = QUESTIONS if where is None else QUESTIONS[:2]
    for query, options in itertools.product(asked, OPTIONS):
        body = options | ({} if where is None else {"filter": where})
        found = acme.post("/v1/search", json=body | {"query": query})
        assert found.status_code == 200, found.text
        check(found.text, query)
    body = {} if where is None else {"filter": where}
    for query in asked[:2]:
        check(acme.post("/v1/ask", json=body | {"question": query}).text, query)
        check(acme.post("/v1/ask", json=body | {"question": query, "stream": True}).text, query)
        messages = [{"role": "user", "content": query}]
        for stream in (False, True):
            chat = body | {"messages": messages, "stream": stream}
            check(acme.post("/v1/chat/completions", json=chat).text, query)


def test_each_tenant_finds_all_that_is_its_own(clients, owned):
    """Also what nearly equals the other's; what belongs to nobody is seen by neither."""
    query = "rotor turbine boats visitor ferry canteen soup"
    for name in ("acme", "globex"):
        mine = {hit["chunk_id"] for hit in hits_of(clients[name], query)}
        assert mine == {hit["chunk_id"] for hit in owned[name]}
    everything = {hit["chunk_id"] for hit in hits_of(clients["admin"], query)}
    assert len(everything) > len(owned["acme"]) + len(owned["globex"])
    assert any(SHARED[:40] in hit["text"] for hit in hits_of(clients["acme"], SHARED))
    assert any(SHARED[:40] in hit["text"] for hit in hits_of(clients["globex"], SHARED))


def test_a_conversation_about_the_other_finds_nothing_of_it(clients, check):
    said = "The globex rotor turns at a speed that is secret."
    messages = [
        {"role": "user", "content": "How fast does the globex rotor turn?"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "And how is it cleaned?"},
    ]
    found = clients["acme"].post("/v1/chat/completions", json={"messages": messages}).json()
    del found["question"]
    check(json.dumps(found))


def test_documents_chunks_and_pages_of_the_other_are_not_there(clients, owned):
    """They are absent in the very words in which what does not exist is."""
    acme, admin = clients["acme"], clients["admin"]
    for hit in owned["globex"]:
        paths = [f"/v1/documents/{hit['doc_id']}", f"/v1/chunks/{hit['chunk_id']}"]
        if hit["pages"]:
            paths.append(f"/v1/documents/{hit['doc_id']}/pages/1")
        for path in paths:
            assert admin.get(path).status_code == 200
            hidden, made_up = acme.get(path), acme.get(path.replace(path.split("/")[3], "f" * 32))
            assert hidden.status_code == made_up.status_code == 404
            assert hidden.headers.keys() == made_up.headers.keys()
            shown = hidden.json()["error"]["message"].replace(path.split("/")[3], "f" * 32)
            assert shown == made_up.json()["error"]["message"]


def test_ones_own_documents_and_pages_are_there(clients, owned):
    for hit in owned["acme"]:
        found = clients["acme"].get(f"/v1/documents/{hit['doc_id']}")
        assert found.status_code == 200
        assert "duplicate" not in found.text  # it may name a document of the other
        assert clients["acme"].get(f"/v1/chunks/{hit['chunk_id']}").status_code == 200
    pdf = next(hit for hit in owned["acme"] if hit["pages"])
    page = clients["acme"].get(f"/v1/documents/{pdf['doc_id']}/pages/2")
    assert page.headers["content-type"] == "image/png"


def test_the_collection_is_not_counted_behind_a_filter(clients, check):
    found = clients["acme"].get("/v1/collection")
    check(found.text)
    assert "documents" not in found.json()
    assert "chunks" not in found.json()
    assert clients["admin"].get("/v1/collection").json()["chunks"] > 10


def test_metrics_are_not_shown_behind_a_filter(clients):
    assert clients["acme"].get("/metrics").status_code == 403
    assert clients["admin"].get("/metrics").status_code == 200


@pytest.mark.parametrize(
    "where",
    [{"tenant": 1}, {"tenant": {"near": "globex"}}, {"owner": "globex"}, {"year": "globex"},
     {"not": {}}, {"and": [{"tenant": {}}]}],
    ids=str,
)  # fmt: skip
def test_an_error_shows_no_value_of_the_other(clients, check, where):
    """What is wrong with a filter is told from the filter alone."""
    found = clients["acme"].post("/v1/search", json={"query": "rotor", "filter": where})
    assert found.status_code == 400
    message = found.json()["error"]["message"].replace("'globex'", "")
    check(message)


def test_words_for_feedback_come_from_ones_own_documents(clients):
    body = {"query": "rotor speed", "transform": "feedback"}
    words = clients["acme"].post("/v1/search", json=body).json()["transform"]["words"]
    assert words
    assert not {"globex", "7731"} & set(words)


def test_a_stream_of_hits_is_filtered_too(clients, check):
    body = {"question": "How fast does the globex rotor turn?", "stream": True}
    with clients["acme"].stream("POST", "/v1/ask", json=body) as reply:
        hits = next(events_of(reply.iter_lines()))[1]["hits"]
    check(json.dumps(hits))
    assert hits


def test_a_key_that_is_removed_is_refused_without_a_restart(tenants, tmp_path):
    file = tmp_path / "keys.yaml"
    key = add_key(file, "short-lived", ACME, 10_000)
    with running(tenants, f"service.keys={file}") as found, found.client(key) as client:
        assert client.get("/v1/models").status_code == 200
        remove_key(file, "short-lived")
        new = add_key(file, "next")
        time.sleep(1.2)
        assert client.get("/v1/models").status_code == 401
        assert client.get("/v1/models", headers={"Authorization": f"Bearer {new}"}).is_success


def test_a_rate_is_kept_and_says_when_to_come_back(tenants, tmp_path):
    file = tmp_path / "keys.yaml"
    slow, other = add_key(file, "slow", None, 2), add_key(file, "other")
    with running(tenants, f"service.keys={file}") as found, found.client(slow) as client:
        # What cannot be read counts as well.
        assert client.post("/v1/search", content=b"{").status_code == 415
        assert client.post("/v1/search", json={"query": "rotor"}).status_code == 200
        refused = client.post("/v1/search", json={"query": "rotor"})
        assert refused.status_code == 429
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert 25 <= int(refused.headers["retry-after"]) <= 30
        assert client.get("/healthz").status_code == 200
        with found.client(other) as free:
            assert free.post("/v1/search", json={"query": "rotor"}).status_code == 200
