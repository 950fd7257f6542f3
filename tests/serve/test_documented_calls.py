"""The calls that docs/service.md shows are answered, and the errors that it lists exist."""

import re
import shlex
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text("utf-8")
BASE = "http://127.0.0.1:8000"


def calls():
    """The words of each call by curl."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [words for words in map(shlex.split, lines) if words[:1] == ["curl"]]


def read(words):
    """(path, body, headers) of a call."""
    path, body, headers = None, None, {}
    left = iter(words[1:])
    for word in left:
        match word:
            case "-N":
                pass
            case "-H":
                name, _, value = next(left).partition(": ")
                headers[name] = value
            case "-d":
                body = next(left)
            case "--output":
                next(left)
            case _:
                assert word.startswith(BASE), word
                path = word.removeprefix(BASE)
    return path, body, headers


@pytest.mark.parametrize("words", calls(), ids=lambda words: " ".join(words)[:60])
def test_a_call_is_answered(client, words):
    path, body, headers = read(words)
    where = {"query": "turbine", "filter": {"author": "Acme Press"}}
    hit = client.post("/v1/search", json=where).json()["hits"][0]
    for name in ("doc_id", "chunk_id"):
        path = path.replace(name.upper(), hit[name])
    reply = client.request("GET" if body is None else "POST", path, content=body, headers=headers)
    assert reply.status_code == 200, reply.text


def test_every_path_is_shown(service):
    shown = {re.sub(r"DOC_ID|CHUNK_ID|pages/\d+|\?.*", "", read(words)[0]) for words in calls()}
    told = {re.sub(r"\{doc_id\}|\{chunk_id\}|pages/\{page\}", "", route.path)
            for route in service.app.routes if route.path.startswith("/v1")}  # fmt: skip
    assert told - shown == {"/v1/models/{model}"}


def test_the_codes_of_errors_are_those_of_the_code():
    listed = PAGE.split("### Errors")[1].split("\n## ")[0]
    rows = re.findall(r"^\| [\d, ]+ \| (.*?) \|", listed, re.MULTILINE)
    codes = {code for row in rows for code in re.findall(r"`(\w+)`", row)}
    sources = (Path(__file__).parents[2] / "serve" / "api").glob("*.py")
    text = "".join(path.read_text("utf-8") for path in sources)
    assert [code for code in codes if f'"{code}"' not in text] == []
    made = set(re.findall(r'ApiError\(\s*\d+, "(\w+)"', text)) | set(
        re.findall(r'_refuse\(\d+, "(\w+)"', text)
    )
    assert made - codes <= {
        "model_not_found", "method_not_allowed", "client_closed_request", "internal_error",
    }  # fmt: skip
