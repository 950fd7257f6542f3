"""A line for every query: what is in it, what never is, and what becomes of it on a bad disk."""

import errno
import io
import json
import os
import re
import secrets
import shutil
from pathlib import Path

import httpx2 as httpx
import pytest
import yaml
from stand_in import app_with, running, settled

from rag_cluster.querylog import Log, files_of
from serve.keys import Caller, Keys, hash_of
from serve.logfile import LogFile
from serve.metrics import LINES_LOST, LocalMeters
from serve.observe import Observer
from serve.options import Options
from serve.querylog import SALT, QueryLog, line_of, salt_of
from serve.record import Record

QUESTION = "Where does the mast stand?"


def record(question=QUESTION, **known):
    return Record("search", Caller("acme"), question, Options(), **known)


def lines(folder):
    return [line for _, line in Log(folder)]


def ask(tmp_path, *settings, keys=None, headers=None):
    """The lines after a search, an answer, a stream that broke off and an unknown key."""
    folder = tmp_path / "log"
    config = settled(f"service.log.folder={folder}", *settings)
    with running(app_with(config, keys)) as url:
        send = httpx.Client(base_url=url, headers=headers or {}, timeout=10)
        with send:
            send.post("/v1/search", json={"query": QUESTION, "top_k": 3, "channels": ["bm25"]})
            send.post("/v1/ask", json={"question": QUESTION, "filter": {"title": "Manual"}})
            send.post("/v1/ask", json={"question": "broken", "stream": True})
            send.post("/v1/search", json={"query": "fail"})
            send.post("/v1/search", json={"query": QUESTION}, headers={"x-api-key": "rag-wrong"})
    return lines(folder)


def test_a_line_says_what_was_asked_and_what_became_of_it(tmp_path):
    search, ask_line, broken, failed, _ = ask(tmp_path, "service.log.text=true")
    assert search["route"] == "search"
    assert search["question"] == QUESTION
    assert search["key"] == "anonymous"
    assert (search["version"], search["status"], search["code"]) == ("v000007", 200, None)
    assert search["options"]["top_k"] == 3
    assert search["options"]["channels"] == ["bm25"]
    assert search["options"]["rerank"] == "none"
    assert search["timings_ms"]["encode"] == 4.0
    assert search["hits"] == 2
    first = search["chunks"][0]
    assert first == {
        "chunk_id": "c1", "doc_id": "d1", "uri": "/docs/manual-1.pdf", "pages": [1, 1], "score": 1.0
    }  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", search["time"])
    assert len(search["id"]) == 32
    assert ask_line["options"]["filter"] == {"title": "Manual"}
    assert ask_line["options"]["max_tokens"] == 400
    assert [one["chunk_id"] for one in ask_line["cited"]] == ["c1"]
    assert ask_line["tokens"] == {"prompt": 21, "completion": 9}
    assert set(ask_line["guardrails"]["coverage"]) == {"status", "value"}
    assert (broken["status"], broken["code"]) == (502, "model_failed")
    assert broken["first_token_ms"] > 0
    assert "cited" not in broken
    assert (failed["status"], failed["code"], "hits" in failed) == (502, "model_failed", False)


def test_without_text_a_hash_tells_repeats_and_nothing_else(tmp_path):
    found = ask(tmp_path)
    text = json.dumps(found)
    assert "mast" not in text
    assert "hedge" not in text
    hashes = [line["question_hash"] for line in found]
    assert hashes[0] == hashes[1] == hashes[4]
    assert len(set(hashes)) == 3
    salt = (tmp_path / "log" / SALT).read_bytes()
    assert len(salt) == 32
    assert salt_of(tmp_path / "log") == salt  # the same for all replicas
    assert (tmp_path / "log" / SALT).stat().st_mode & 0o077 == 0
    same = line_of(record("  where does the MAST\nstand? "), settled(), salt)
    assert same["question_hash"] == hashes[0]
    assert line_of(record(), settled(), salt_of(tmp_path / "other"))["question_hash"] != hashes[0]


def test_no_key_is_ever_in_the_log(tmp_path):
    key = f"rag-{secrets.token_urlsafe(32)}"  # as `rag-cluster keys` makes them
    path = tmp_path / "keys.yaml"
    path.write_text(yaml.safe_dump([{"name": "acme", "hash": hash_of(key)}]))
    found = ask(
        tmp_path, "service.log.text=true", keys=Keys.read(str(path)),
        headers={"Authorization": f"Bearer {key}"},
    )  # fmt: skip
    assert [line["key"] for line in found] == ["acme"] * 5  # the header Authorization goes first
    log = QueryLog(settled(f"service.log.folder={tmp_path / 'log'}", "service.log.text=true"),
                   LocalMeters(), "second")  # fmt: skip
    log.add(record(f"why does {key} not work?"))
    log.close()
    (pasted,) = [line for line in lines(tmp_path / "log") if line["route"] == "search"][-1:]
    assert pasted["question"] == "why does rag-*** not work?"
    for file in (tmp_path / "log").iterdir():
        content = file.read_bytes()
        assert key.encode() not in content
        assert hash_of(key).encode() not in content
        assert file.stat().st_mode & 0o077 == 0  # questions are nobody else's


def test_files_are_followed_by_others_and_few_are_kept(tmp_path):
    file = LogFile(tmp_path, "replica#1/a", max_bytes=100, files=3)
    for number in range(20):
        file.write(json.dumps({"number": number, "fill": "x" * 20}))
    file.close()
    found = files_of(tmp_path)
    assert [file.path.name for file in found] == [
        f"queries-replica-1-a.{number}.jsonl" for number in (8, 9, 10)
    ]
    text = "".join(one.path.read_text() for one in found)
    kept = [json.loads(row)["number"] for row in text.splitlines()]
    assert kept == list(range(14, 20))
    again = LogFile(tmp_path, "replica#1/a", max_bytes=100, files=3)  # the replica came back
    again.write("{}")
    again.close()
    assert (tmp_path / "queries-replica-1-a.10.jsonl").read_text().endswith("\n{}\n")


def test_old_files_of_replicas_that_are_gone_are_deleted(tmp_path):
    (tmp_path / "queries-gone.4.jsonl").write_text("{}\n")
    (tmp_path / "queries-late.1.jsonl").write_text("{}\n")
    (tmp_path / "notes.txt").write_text("not of the log")
    for name in ("queries-gone.4.jsonl", "notes.txt"):
        os.utime(tmp_path / name, (1, 1))
    file = LogFile(tmp_path, "here", 1000, 3, days=30)
    file.write("{}")
    file.close()
    assert {file.name for file in files_of(tmp_path)} == {"late", "here"}
    assert (tmp_path / "notes.txt").exists()


def test_a_line_that_was_cut_off_does_not_spoil_the_next_one(tmp_path):
    # A pipe that is nearly full takes the beginning of a line only, as a disk does.
    target = tmp_path / "queries-here.1.jsonl"
    os.mkfifo(target)
    reading = os.open(target, os.O_RDONLY | os.O_NONBLOCK)
    file = LogFile(tmp_path, "here", 10**9, 1)
    file.write('{"first": 1}')
    os.set_blocking(file._file, False)
    with pytest.raises(OSError, match="bytes of a line"):
        file.write(json.dumps({"fill": "x" * 10**6}))
    taken = os.read(reading, 2 * 10**6)
    file.write('{"second": 2}')
    taken += os.read(reading, 2 * 10**6)
    file.close()
    os.close(reading)
    assert taken.splitlines()[0] == b'{"first": 1}'
    assert taken.splitlines()[-1] == b'{"second": 2}'


@pytest.mark.parametrize("problem", ["full", "no folder"])
def test_what_cannot_be_written_is_counted_and_warned_of_once(tmp_path, problem, caplog):
    folder = tmp_path / "log"
    if problem == "full":
        folder.mkdir()
        (folder / "queries-replica.1.jsonl").symlink_to("/dev/full")
    else:
        folder.write_text("a file stands where the folder should be")
    meters = LocalMeters()
    log = QueryLog(settled(f"service.log.folder={folder}"), meters, "replica")
    begun = [one.message for one in caplog.records]
    assert [f"cannot be written to {folder}" in told for told in begun] == (
        [True] if problem == "no folder" else []
    )
    for _ in range(3):
        log.add(record())
    log.close()
    assert meters._series[LINES_LOST.name]._value.get() == 3
    (warned,) = [one for one in caplog.records if "was lost" in one.message]
    assert str(folder) in warned.message


class FullDisk(io.FileIO):
    """A file that was made on a disk without space."""

    def write(self, _):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_another_reason_of_losing_lines_is_warned_of_too(tmp_path, monkeypatch, caplog):
    log = QueryLog(settled(f"service.log.folder={tmp_path}"), LocalMeters(), "replica")
    reasons = iter([OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "broken"), ValueError("odd"),
                    OSError(errno.ENOSPC, "full"), ValueError("odder")])  # fmt: skip
    monkeypatch.setattr(log._file, "write", lambda _: (_ for _ in ()).throw(next(reasons)))
    for _ in range(5):
        log.add(record())
    log.close()
    warned = [one.message for one in caplog.records if "query log" in one.message]
    assert [re.findall("full|broken|odd", one) for one in warned] == [["full"], ["broken"], ["odd"]]


def test_a_full_disk_leaves_no_half_salt(tmp_path, monkeypatch):
    with monkeypatch.context() as full:
        full.setattr(os, "fdopen", lambda file, _: FullDisk(file, "wb"))
        with pytest.raises(OSError, match="No space"):
            salt_of(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(salt_of(tmp_path)) == 32


def test_an_empty_salt_of_an_earlier_version_is_replaced(tmp_path):
    (tmp_path / SALT).touch()
    salt = salt_of(tmp_path)
    assert len(salt) == 32
    assert salt_of(tmp_path) == salt
    assert [path.name for path in tmp_path.iterdir()] == [SALT]
    assert (tmp_path / SALT).stat().st_mode & 0o077 == 0
    (tmp_path / SALT).write_bytes(b"some")
    with pytest.raises(OSError, match="damaged: delete it"):
        salt_of(tmp_path)


def test_a_salt_that_another_replica_put_in_place_of_an_empty_one_stays(tmp_path, monkeypatch):
    (tmp_path / SALT).touch()
    rename = Path.rename

    def late(path, target):
        if path.name == SALT:
            path.write_bytes(b"f" * 32)  # just before it is renamed
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", late)
    assert salt_of(tmp_path) == b"f" * 32
    assert [path.name for path in tmp_path.iterdir()] == [SALT]


@pytest.mark.parametrize("links", [True, False])
def test_the_first_of_several_replicas_makes_the_salt(tmp_path, monkeypatch, links):
    link = os.link

    def late(made, path):
        if not links:
            raise PermissionError(errno.EPERM, "no links here")
        path.write_bytes(b"f" * 32)  # another replica was faster
        link(made, path)

    monkeypatch.setattr(os, "link", late)
    salt = salt_of(tmp_path)
    assert salt == (tmp_path / SALT).read_bytes()
    assert (salt == b"f" * 32) == links
    assert [path.name for path in tmp_path.iterdir()] == [SALT]


def test_a_log_that_is_deleted_or_moved_away_is_begun_anew(tmp_path):
    folder = tmp_path / "log"
    meters = LocalMeters()
    log = QueryLog(settled(f"service.log.folder={folder}"), meters, "replica")

    def written(number):
        log._write(record(str(number)))  # as its thread does
        return len(lines(folder))

    assert [written(1), written(2)] == [1, 2]
    shutil.rmtree(folder)
    assert [written(3), written(4)] == [1, 2]
    folder.rename(tmp_path / "away")
    assert written(5) == 1
    (folder / "queries-replica.1.jsonl").unlink()
    assert written(6) == 1
    assert (folder / SALT).exists()
    log.close()
    assert len(lines(tmp_path / "away")) == 2
    assert meters._series[LINES_LOST.name]._value.get() == 0


@pytest.mark.parametrize("broken", ["metrics", "log", "trace"])
def test_what_fails_of_a_record_costs_nothing_else_and_is_logged_once(broken, caplog):
    kept = []

    class Place(LocalMeters):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def observe(self, *_, **__):
            kept.append(self.name)
            if self.name == broken:
                raise TypeError("odd usage")

        add = stages = observe

    observer = Observer(Place("metrics"), Place("log"))
    found = record(span=Place("trace"), extra={"first_token_s": 0.1})
    for _ in range(2):
        observer.ended(found)
    assert kept == ["metrics", "log", "trace"] * 2
    (told,) = [one for one in caplog.records if "was not recorded" in one.message]
    assert f"in the {broken}" in told.message
    assert told.exc_info


def test_queries_are_answered_while_their_log_fails(tmp_path):
    (tmp_path / "log").write_text("a file stands where the folder should be")
    with running(app_with(settled(f"service.log.folder={tmp_path / 'log'}"))) as url:
        reply = httpx.post(f"{url}/v1/search", json={"query": "mast"})
        assert reply.status_code == 200
        text = httpx.get(f"{url}/metrics").text
    assert "rag_cluster_log_lines_lost_total 1.0" in text


def test_a_disk_that_is_too_slow_costs_lines_and_not_queries(tmp_path):
    meters = LocalMeters()
    log = QueryLog(settled(f"service.log.folder={tmp_path}"), meters, "replica")
    log.close()  # nobody takes from the queue any more
    for _ in range(10_005):
        log.add(record())
    assert meters._series[LINES_LOST.name]._value.get() == 5


def test_lines_in_the_queue_are_written_at_the_end(tmp_path):
    log = QueryLog(settled(f"service.log.folder={tmp_path}"), LocalMeters(), "replica")
    for number in range(200):
        log.add(record(str(number)))
    log.close()
    assert len(lines(tmp_path)) == 200
