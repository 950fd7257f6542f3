"""`rag-cluster keys add`, `list` and `remove`."""

import json

import pytest

from rag_cluster.cli import run
from serve.keys import Keys


@pytest.fixture
def call(tmp_path, capsys):
    file = tmp_path / "keys.yaml"

    def call(*words):
        code = run(["keys", words[0], *words[1:], "--file", str(file)])
        out, err = capsys.readouterr()
        return code, out, err

    call.file = file
    return call


def test_a_key_is_printed_once_and_works(call):
    code, out, err = call(
        "add", "acme", "--filter", '{"tenant": "acme"}', "--requests-per-minute", "30"
    )
    key = out.strip()
    assert (code, out.count("\n")) == (0, 1)
    assert "shown only now" in err
    caller = Keys.read(str(call.file)).find(key)
    assert (caller.name, caller.where, caller.requests_per_minute) == (
        "acme", {"tenant": "acme"}, 30.0,
    )  # fmt: skip
    code, out, _ = call("list")
    assert code == 0
    assert key not in out
    assert "acme" in out


def test_keys_as_json(call):
    call("add", "one")
    code, out, _ = call("list", "--json")
    assert code == 0
    assert json.loads(out)["keys"] == [{"name": "one", "filter": None, "requests_per_minute": None}]


def test_a_key_is_removed(call):
    call("add", "one")
    assert call("remove", "one")[0] == 0
    assert json.loads(call("list", "--json")[1])["keys"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("add", "one"), "has a key 'one'"),
        (("add", "two", "--filter", "tenant=acme"), "--filter is not JSON"),
        (("add", "two", "--requests-per-minute", "-1"), "from 0.001"),
        (("add", "two", "--requests-per-minute", "1e-320"), "from 0.001 to 1000000000"),
        (("add", "two", "--requests-per-minute", "nan"), "from 0.001 to 1000000000"),
        (("remove", "two"), "no key 'two'"),
    ],
)
def test_a_mistake_is_one_line(call, words, says):
    call("add", "one")
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [("add", "one"), ("remove", "one"), ("list",)], ids=" ".join)
@pytest.mark.parametrize("kind", ["loop", "long", "value"])
def test_a_file_that_cannot_be_used_is_one_line(tmp_path, capsys, words, kind):
    file = tmp_path / ("x" * 300 if kind == "long" else "keys.yaml")
    match kind:
        case "loop":
            file.symlink_to(file)
        case "value":
            file.write_text("- {name: a, hash: x, filter: {year: 2024-13-45}}")
    assert run(["keys", *words, "--file", str(file)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "API keys" in err


def test_a_file_that_is_not_there_cannot_be_listed(call):
    code, _, err = call("list")
    assert code == 2
    assert "'rag-cluster keys add' makes the file" in err
