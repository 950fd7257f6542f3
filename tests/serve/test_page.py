"""The files of the page over HTTP, without a browser."""

import asyncio
import re

import httpx2 as httpx
import pytest
from fastapi import FastAPI

from serve.api import errors, page


@pytest.fixture
def get():
    app = FastAPI()
    errors.install(app)
    app.include_router(page.router)

    def ask(path: str, method: str = "GET", **headers: str) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await client.request(method, path, headers=headers)

        return asyncio.run(asked())

    ask.app = app
    return ask


def test_every_file_that_the_page_names_is_there(get):
    html = get("/").text
    named = set(re.findall(r'(?:href|src)="(page/[^"]+)"', html))
    for name in page.files():
        named |= {
            f"page/{other}" for other in re.findall(r'from "\./([^"]+)"', get(f"/page/{name}").text)
        }
    assert named == {f"page/{name}" for name in page.files()} - {"page/index.html"}
    assert {get(f"/{name}").status_code for name in named} == {200}


def test_nothing_comes_from_another_host_and_nothing_is_read_as_html():
    for name, file in page.files().items():
        text = file.content.decode()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|[\"'(]//", text), name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text
        ), name
        assert "style=" not in text, name


@pytest.mark.parametrize("path", ["/", "/page/app.js", "/page/style.css", "/page/icon.svg"])
def test_headers_keep_the_page_to_itself(get, path):
    reply = get(path)
    policy = dict(
        part.split(" ", 1) for part in reply.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "no-referrer"


def test_a_browser_that_has_a_file_is_not_sent_it_again(get):
    reply = get("/page/app.js")
    again = get("/page/app.js", **{"if-none-match": f'"other", W/{reply.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert get("/page/app.js", **{"if-none-match": '"other"'}).status_code == 200


def test_head_has_no_body(get):
    reply = get("/", "HEAD")
    assert (reply.status_code, reply.content) == (200, b"")
    assert int(reply.headers["content-length"]) > 1000


@pytest.mark.parametrize("name", ["absent.js", "index.html", "..%2fapi%2fpage.py", "%2e%2e/app.py"])
def test_other_files_are_not_there(get, name):
    reply = get(f"/page/{name}")
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "not_found"


def test_the_page_is_no_part_of_the_api(get):
    assert get.app.openapi()["paths"] == {}
