"""Documents, their pages as images, chunks, the collection and the models over HTTP."""

import pytest

PNG = b"\x89PNG\r\n\x1a\n"


def get(client, path, status=200, **params):
    reply = client.get(path, params=params)
    assert reply.status_code == status, reply.text
    return reply.json()


@pytest.fixture(scope="module")
def turbine(client):
    """A hit in the second page of a PDF."""
    body = {"query": "acme turbine part 2 weighs", "filter": {"author": "Acme Press"}}
    hits = client.post("/v1/search", json=body).json()["hits"]
    return next(hit for hit in hits if "part 2" in hit["text"])


def test_a_document_has_its_text_its_pages_and_its_metadata(client, turbine):
    found = get(client, f"/v1/documents/{turbine['doc_id']}")
    assert found["media_type"] == "application/pdf"
    assert found["page_images"]
    assert found["metadata"]["author"] == "Acme Press"
    assert [page["number"] for page in found["pages"]] == [1, 2]
    second = found["pages"][1]
    assert "part 2" in found["text"][second["start"] : second["end"]]
    assert found["chars"] == len(found["text"])
    assert "duplicate_of" not in found


def test_a_stretch_of_a_documents_text(client, turbine):
    path = f"/v1/documents/{turbine['doc_id']}"
    whole = get(client, path)["text"]
    part = get(client, path, start=4, end=12)
    assert (part["start"], part["end"], part["text"]) == (4, 12, whole[4:12])
    beyond = get(client, path, start=10**9)
    assert (beyond["start"], beyond["end"], beyond["text"]) == (len(whole), len(whole), "")
    backwards = get(client, path, start=12, end=4)
    assert backwards["text"] == ""


def test_a_chunk_is_where_its_hit_says(client, turbine):
    chunk = get(client, f"/v1/chunks/{turbine['chunk_id']}")
    document = get(client, f"/v1/documents/{chunk['doc_id']}")
    assert document["text"][chunk["start"] : chunk["end"]] == chunk["text"] == turbine["text"]
    assert chunk["pages"] == turbine["pages"]


def test_a_page_of_a_pdf_is_an_image(client, turbine):
    path = f"/v1/documents/{turbine['doc_id']}/pages/2"
    image = client.get(path, params={"width": 120})
    assert image.status_code == 200
    assert image.headers["content-type"] == "image/png"
    assert image.content.startswith(PNG)
    assert int.from_bytes(image.content[16:20], "big") == 120
    # One browser may be used by people with different keys.
    assert image.headers["vary"] == "Authorization, x-api-key"
    assert "private" in image.headers["cache-control"]


@pytest.mark.parametrize("page", [0, 3, -1, 10**9, 10**30])
def test_a_page_that_is_none_is_absent(client, turbine, page):
    error = get(client, f"/v1/documents/{turbine['doc_id']}/pages/{page}", 404)["error"]
    assert error["code"] == "not_found"


@pytest.mark.parametrize("width", [63, 2001, "wide"])
def test_a_width_has_bounds(client, turbine, width):
    error = get(client, f"/v1/documents/{turbine['doc_id']}/pages/1", 400, width=width)["error"]
    assert error["param"] == "width"


def test_a_text_has_no_page_images(client):
    hit = client.post("/v1/search", json={"query": "acme rotor speed"}).json()["hits"][0]
    assert not get(client, f"/v1/documents/{hit['doc_id']}")["page_images"]
    get(client, f"/v1/documents/{hit['doc_id']}/pages/1", 404)


@pytest.mark.parametrize("path", ["documents/none", "chunks/none", "documents/none/pages/1"])
def test_what_is_not_there_is_absent(client, path):
    error = get(client, f"/v1/{path}", 404)["error"]
    assert error["type"] == "not_found_error"
    assert "none" in error["message"]


def test_the_collection_says_what_can_be_asked(client):
    found = get(client, "/v1/collection")
    assert found["fields"] == {"tenant": "keyword", "author": "keyword", "year": "int"}
    assert found["channels"] == ["dense", "bm25"]
    assert found["generator"] == "extractive"
    assert found["documents"]["ok"] == 14
    assert found["chunks"] >= 14
    assert found["limits"]["transforms"] == ["none", "feedback"]
    assert found["limits"]["filter_conditions"] == 100


def test_health(client):
    assert get(client, "/healthz") == {"status": "ok"}
    assert get(client, "/readyz") == {"status": "ok", "version": "v000001", "refused": None}


def test_a_path_or_a_method_that_is_none_has_the_one_shape(client):
    assert get(client, "/v2/search", 404)["error"]["code"] == "not_found"
    reply = client.get("/v1/search")
    assert reply.status_code == 405
    assert reply.json()["error"]["code"] == "method_not_allowed"
    assert reply.headers["allow"] == "POST"


def test_the_api_is_described_and_its_description_loads_nothing_from_elsewhere(client):
    told = get(client, "/openapi.json")
    assert "/v1/ask" in told["paths"]
    assert "HTTPValidationError" not in told["components"]["schemas"]
    for methods in told["paths"].values():
        for operation in methods.values():
            assert "422" not in operation["responses"]
            assert "security" not in operation  # there are no keys
    assert client.get("/docs").status_code == 404
