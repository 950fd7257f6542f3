"""A file of API keys that changes while it is followed."""

import time

import pytest

from rag_cluster.config import load
from serve.key_writing import add_key, remove_key
from serve.keys import LOOK_S, Keys

CONFIG = load(None, ["metadata.fields={tenant: keyword, year: int}"])


@pytest.fixture
def file(tmp_path):
    return tmp_path / "keys.yaml"


def after_a_look(keys, key):
    """Who the key is, once the file was looked at again."""
    time.sleep(LOOK_S + 0.1)
    return keys.find(key)


def test_the_file_is_followed(file):
    first = add_key(file, "one")
    keys = Keys.read(str(file))
    keys.check(CONFIG)
    assert keys.find(first).name == "one"
    second = add_key(file, "two", {"tenant": "acme"})
    remove_key(file, "one")
    assert after_a_look(keys, second).where == {"tenant": "acme"}
    assert keys.find(first) is None


@pytest.mark.parametrize("spoil", ["syntax", "value", "unforeseen", "gone"])
def test_a_file_that_is_spoilt_later_leaves_the_keys_as_they_were(file, spoil, caplog, monkeypatch):
    key = add_key(file, "one")
    keys = Keys.read(str(file))
    keys.check(CONFIG)
    match spoil:
        case "syntax":
            file.write_text("- name: [")
        case "value":
            file.write_text("- {name: a, filter: {year: 2024-13-45}}")
        case "unforeseen":
            monkeypatch.setattr("serve.keys.read_keys", lambda _: 1 // 0)
            add_key(file, "two")
        case "gone":
            file.unlink()
    assert after_a_look(keys, key).name == "one"
    assert "the API keys stay as they were" in caplog.text
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    monkeypatch.undo()
    other = file.with_name("other.yaml")
    new = add_key(other, "three")
    other.replace(file)
    assert after_a_look(keys, new).name == "three"
    assert keys.find(key) is None


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ({"teem": "x"}, "'teem', which is not a declared field"),
        ({"year": "x"}, "'year' is of type int"),
        ({"year": {"near": 1}}, "unknown operator 'near'"),
        ({"not": {"tenant": {}}}, "empty object"),
    ],
    ids=str,
)
def test_a_key_that_cannot_be_enforced_keeps_no_other_from_being_removed(file, where, says, caplog):
    gone, kept = add_key(file, "gone"), add_key(file, "kept")
    keys = Keys.read(str(file))
    keys.check(CONFIG)
    bad, new = add_key(file, "bad", where), add_key(file, "new", {"tenant": "acme"})
    remove_key(file, "gone")
    assert after_a_look(keys, kept).name == "kept"
    assert keys.find(new).name == "new"
    assert (keys.find(gone), keys.find(bad), len(keys)) == (None, None, 2)
    error, told = caplog.records
    assert (error.levelname, told.levelname) == ("ERROR", "WARNING")
    assert f"the API key 'bad' of {file} is refused" in error.getMessage()
    assert says in error.getMessage()
