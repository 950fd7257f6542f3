"""API keys: their file, their rates, and when there must be some."""

import os
import socket
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from rag_cluster.config import Service, load
from rag_cluster.errors import ConfigError
from serve.key_writing import _write, add_key, list_keys, remove_key
from serve.keys import Buckets, Caller, Keys, check_exposure, keys_of

CONFIG = load(None, ["metadata.fields={tenant: keyword, year: int}"])


@pytest.fixture
def file(tmp_path):
    return tmp_path / "keys.yaml"


def test_a_key_is_found_and_its_file_does_not_hold_it(file):
    key = add_key(file, "analytics", {"tenant": "acme"}, 60)
    assert key not in file.read_text()
    assert len(key) > 40
    keys = Keys.read(str(file))
    assert keys.find(key) == Caller("analytics", {"tenant": "acme"}, 60.0)
    assert keys.find(key + "x") is None
    assert keys.find("") is None
    assert len(keys) == 1


def test_the_file_is_for_its_owner_alone_and_replaced_as_a_whole(file):
    add_key(file, "one")
    before = file.stat().st_ino
    file.chmod(0o644)
    add_key(file, "two")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.stat().st_ino != before
    assert [path.name for path in file.parent.iterdir()] == ["keys.yaml"]


def test_a_link_leads_to_the_file_that_is_written(file, tmp_path):
    add_key(file, "one")
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    add_key(link, "two")
    assert link.is_symlink()
    assert [key["name"] for key in list_keys(file)] == ["one", "two"]


def test_keys_are_listed_and_removed(file):
    gone = add_key(file, "one")
    kept = add_key(file, "two", {"year": {"gte": 2020}}, 2.5)
    remove_key(file, "one")
    assert list_keys(file) == [
        {"name": "two", "filter": {"year": {"gte": 2020}}, "requests_per_minute": 2.5}
    ]
    keys = Keys.read(str(file))
    assert keys.find(gone) is None
    assert keys.find(kept) is not None
    with pytest.raises(ConfigError, match="no key 'one'; there are: 'two'"):
        remove_key(file, "one")


@pytest.mark.parametrize(
    ("name", "where", "rate", "says"),
    [
        ("taken", None, None, "has a key 'taken'"),
        ("", None, None, "1 to 64 printable"),
        ("a\nb", None, None, "1 to 64 printable"),
        ("x" * 65, None, None, "1 to 64 printable"),
        ("new", {}, None, "leave it out"),
        ("new", {"section_path": "A"}, None, "chunks of one document differ"),
        ("new", {"or": [{"not": {"kind": "table"}}]}, None, "names 'kind'"),
        *(
            ("new", None, rate, "from 0.001 to 1000000000")
            for rate in (0, -1, 1e-320, 1e-4, 1.1e9, 10**400, float("inf"), float("nan"))
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_key_that_cannot_be_made(file, name, where, rate, says):
    add_key(file, "taken")
    before = file.read_bytes()
    with pytest.raises(ConfigError, match=says):
        add_key(file, name, where, rate)
    assert file.read_bytes() == before


def nested(levels):
    where = {"tenant": "acme"}
    for _ in range(levels):
        where = {"not": where}
    return where


@pytest.mark.parametrize("levels", [100, 900, 5000])
def test_a_filter_that_is_nested_too_deep(file, levels):
    with pytest.raises(ConfigError, match="nested more than 32 levels"):
        add_key(file, "deep", nested(levels))
    assert not file.exists()


@pytest.mark.parametrize("rate", [0.001, 1e9])
def test_the_bounds_of_a_rate_are_rates(file, rate):
    add_key(file, "one", None, rate)
    assert list_keys(file)[0]["requests_per_minute"] == rate


@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "link to a fifo"])
def test_what_is_no_regular_file_stays_as_it_is(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)  # the whole path may be too long for a socket
    target = file = tmp_path / "there"
    with socket.socket(socket.AF_UNIX) as server:
        match kind:
            case "folder":
                target.mkdir()
            case "socket":
                server.bind(target.name)
            case _:
                os.mkfifo(target)
        if kind.startswith("link"):
            file = tmp_path / "link"
            file.symlink_to(target)
        before = target.lstat(), sorted(tmp_path.iterdir())
        for change in (add_key, remove_key):
            with pytest.raises(ConfigError, match="stays as it is: name a file of API keys"):
                change(file, "one")
        # And what comes there in the meantime is not replaced either.
        with pytest.raises(ConfigError, match="stays as it is"):
            _write(target, {})
        after = target.lstat(), sorted(tmp_path.iterdir())
    assert (after[0].st_mode, after[0].st_ino) == (before[0].st_mode, before[0].st_ino)
    assert after[1] == before[1]


@pytest.mark.parametrize(
    "name", ["loop", "x" * 300, "a\0b", "a\ud800b", "fifo/keys.yaml", "file/keys.yaml"], ids=ascii
)
def test_a_name_that_no_file_can_have(tmp_path, name):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    for change in (add_key, remove_key):
        with pytest.raises(ConfigError):
            change(tmp_path / name, "one")
    with pytest.raises(ConfigError):
        list_keys(tmp_path / name if "fifo" not in name else tmp_path / "none")


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="there is no folder"):
        add_key(tmp_path / "none" / "keys.yaml", "one")


HASH = "a" * 64


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a: 1", "must be a list"),
        ("- x: [", "are not YAML in line"),
        ("- name: a", "must have name and hash"),
        (f"- {{name: a, hash: {HASH}, fliter: {{}}}}", "must have name and hash, and may have"),
        ("- {name: a, hash: abc}", "64 hexadecimal digits"),
        (f"- {{name: a, hash: {HASH}}}\n- {{name: a, hash: {'b' * 64}}}", "there twice"),
        (f"- {{name: a, hash: {HASH}}}\n- {{name: b, hash: {HASH}}}", "there twice"),
        (f"- {{name: a, hash: {HASH}, requests_per_minute: true}}", "from 0.001 to"),
        (f"- {{name: a, hash: {HASH}, requests_per_minute: 1.0e-310}}", "from 0.001 to"),
        (f"- {{name: a, hash: {HASH}, requests_per_minute: 1{'0' * 400}}}", "from 0.001 to"),
        (f"- {{name: a, hash: {HASH}, requests_per_minute: 0x{'f' * 5000}}}", "from 0.001 to"),
        (f"- {{name: a, hash: {HASH}, requests_per_minute: .nan}}", "from 0.001 to"),
        (f"- {{name: a, hash: {HASH}, filter: {{year: 2024-13-45}}}}", r"not YAML .*ValueError"),
        ("[" * 3000, "not YAML .*RecursionError"),
        ('!!int "zz"', "not YAML .*ValueError"),
        ("- !!float x", "not YAML .*ValueError"),
        ('- !!timestamp "x"', "not YAML .*AttributeError"),
        ("- !!bool x", "not YAML .*KeyError"),
        ("- {name: a, hash: \x07}", "are not YAML"),
        (f"- {{name: 0x{'f' * 5000}, hash: {HASH}}}", "a number in it is too long"),
        (f"- &k {{name: a, hash: {HASH}, filter: {{and: [*k]}}}}", "nested more than 32"),
        (f"- {{name: a, hash: {HASH}, filter: {{}}}}", "filter must be a mapping"),
        (f"- {{name: a, hash: {HASH}, filter: [1]}}", "filter must be a mapping"),
        (f"- {{name: a, hash: {HASH}, filter: {{role: body}}}}", "names 'role'"),
    ],
)
def test_a_file_that_cannot_be_used(file, content, says):
    file.write_text(content)
    with pytest.raises(ConfigError, match=says) as failed:
        Keys.read(str(file))
    assert HASH not in str(failed.value)


def test_keys_in_a_variable(file, monkeypatch):
    key = add_key(file, "one")
    monkeypatch.setenv("SOME_KEYS", file.read_text())
    assert Keys.read("env:SOME_KEYS").find(key).name == "one"
    with pytest.raises(ConfigError, match="NO_SUCH_KEYS is not set"):
        Keys.read("env:NO_SUCH_KEYS")
    add_key(file, "two", {"customer": "acme"})
    monkeypatch.setenv("SOME_KEYS", file.read_text())
    with pytest.raises(ConfigError, match="API key 'two' of env:SOME_KEYS: its filter"):
        Keys.read("env:SOME_KEYS").check(CONFIG)


def test_a_filter_must_fit_the_collection(file):
    add_key(file, "one", {"customer": "acme"})
    says = rf"API key 'one' of {file}: .*'customer', which is not a declared"
    with pytest.raises(ConfigError, match=says):
        Keys.read(str(file)).check(CONFIG)


def test_a_filter_needs_each_document_to_be_searched(file):
    once = ["metadata.fields={tenant: keyword}", "duplicates.near=index_once"]
    add_key(file, "everything")
    Keys.read(str(file)).check(load(None, once))
    add_key(file, "one", {"tenant": "acme"})
    with pytest.raises(ConfigError, match=r"API key 'one' of .* has a filter.*index_once"):
        Keys.read(str(file)).check(load(None, once))


def test_two_at_once_lose_no_key(file):
    """A lock of the folder is one of an opened file, so threads stand for processes."""
    names = [f"key {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: add_key(file, name), names))
    assert sorted(key["name"] for key in list_keys(file)) == names


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_bucket_holds_a_minutes_requests_and_fills_evenly():
    clock = Clock()
    buckets = Buckets(clock)
    caller, other = Caller("a", None, 6.0), Caller("b", None, 6.0)
    assert [buckets.wait_s(caller) for _ in range(6)] == [0.0] * 6
    assert buckets.wait_s(caller) == 10.0  # 6 a minute: one in 10 seconds
    assert buckets.wait_s(other) == 0.0
    clock.now += 4
    assert buckets.wait_s(caller) == pytest.approx(6.0)
    clock.now += 6
    assert buckets.wait_s(caller) == 0.0
    clock.now += 3600
    assert [buckets.wait_s(caller) for _ in range(6)] == [0.0] * 6
    assert buckets.wait_s(caller) > 0


def test_less_than_one_a_minute_is_possible():
    clock = Clock()
    buckets = Buckets(clock)
    caller = Caller("a", None, 0.5)
    assert buckets.wait_s(caller) == 0.0
    assert buckets.wait_s(caller) == 120.0
    clock.now += 121
    assert buckets.wait_s(caller) == 0.0
    assert buckets.wait_s(Caller("free")) == 0.0


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_keys(host):
    check_exposure(Service(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.4", "10.0.0.1", "example.org"])
def test_beyond_loopback_there_must_be_keys(host, file):
    with pytest.raises(ConfigError, match=r"rag-cluster keys add.*service.allow_anonymous"):
        check_exposure(Service(host=host))
    check_exposure(Service(host=host, allow_anonymous=True))
    check_exposure(Service(host=host, keys=str(file)))


def test_the_keys_of_a_configuration(file):
    config = load(None, ["service.host=0.0.0.0"])
    with pytest.raises(ConfigError, match="everybody could read"):
        keys_of(config)
    assert keys_of(load(None, [])) is None
    key = add_key(file, "one", {"tenant": "acme"})
    settings = ["metadata.fields={tenant: keyword}", f"service.keys={file}", "service.host=0.0.0.0"]
    assert keys_of(load(None, settings)).find(key).name == "one"
    with pytest.raises(ConfigError, match="cannot read the API keys in"):
        keys_of(load(None, [f"service.keys={file}x"]))
    assert os.access(file, os.R_OK)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("''", "service.keys is empty: name a file or env:NAME, or null for none"),
        ("' '", "service.keys is empty"),
        ('"\\t"', "service.keys is empty"),
        ('"a\\0b"', "cannot be the name of a file"),
        ('"a\\ud800b"', "cannot be the name of a file"),
        ('"env:a\\0b"', "is not set"),
        ('"env:a\\ud800b"', "is not set"),
        ("'env:'", "is not set"),
    ],
)
def test_a_place_of_keys_that_there_cannot_be(source, says):
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(ConfigError, match=says):
            keys_of(load(None, [f"service.keys={source}", f"service.host={host}"]))
