from __future__ import annotations

import json
import multiprocessing
import time
from pathlib import Path

import pytest
from written import publish

from rag_cluster.errors import CollectionError
from rag_cluster.storage import FORMAT, Collection, Writer, current_version, place, write_file
from rag_cluster.storage.files import folders, remove, sizes, write_text
from rag_cluster.storage.lease import Lease


def test_a_version_is_seen_only_once_it_is_published(home: str) -> None:
    with Writer(home) as writer:
        assert current_version(writer.path) is None
        writer.publish({"format": FORMAT, "n": 1})
    assert Collection.open(home).manifest["n"] == 1
    with Writer(home) as writer:
        assert writer.version == "v000002"
        write_file(writer.folder / "half", lambda p: p.write_text("not published"))
    assert Collection.open(home).version == "v000001"
    assert folders(place(home) / "versions") == ["v000001"]


def test_what_a_killed_writer_left_is_swept_by_the_next(home: str) -> None:
    left = place(home) / "versions" / "v000007" / "chunks" / "f"
    write_file(left, lambda p: p.write_text("x"))
    with Writer(home) as writer:
        assert not left.exists()
        writer.publish({"format": FORMAT})


def test_a_named_run_goes_on_from_its_work_and_publishing_ends_all_runs(home: str) -> None:
    def interrupted(run: str, name: str) -> None:
        with Writer(home, run) as writer:
            write_file(writer.work / name, lambda p: p.write_text(name))
            raise KeyboardInterrupt

    for run, name in (("settings-a", "one"), ("settings-b", "two"), ("", "three")):
        with pytest.raises(KeyboardInterrupt):
            interrupted(run, name)
    work = place(home) / "work"
    assert folders(work) == ["settings-a", "settings-b"]
    assert folders(place(home) / "versions") == []
    with Writer(home, "settings-a") as writer:
        assert (writer.work / "one").read_text() == "one"
        writer.publish({"format": FORMAT})
    assert folders(work) == []


def hold(path: str, ready: object, done: object) -> None:
    with Writer(path):
        ready.set()  # type: ignore[attr-defined]
        done.wait(60)  # type: ignore[attr-defined]


def test_a_second_writer_is_refused_and_a_dead_one_is_recognised(home: str) -> None:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=hold, args=(home, ready, done))
    other.start()
    try:
        assert ready.wait(60)
        with pytest.raises(CollectionError, match=rf"process {other.pid}, since 20.*: wait for it"):
            Writer(home).__enter__()
    finally:
        other.kill()
        other.join()
    with Writer(home) as writer:
        assert writer.version == "v000001"


def test_a_lease_of_another_machine_is_taken_over_when_it_is_stale(bucket: str) -> None:
    path = place(f"{bucket}/c/LOCK")
    far = {"holder": "ann on far (process 3, since 2025)", "machine": "far", "process": 3}
    write_text(path, json.dumps(far | {"token": "t"}))
    with pytest.raises(CollectionError, match=rf"by ann on far .* remove {path}"):
        Lease(path)
    time.sleep(1.1)  # the store counts in seconds
    lease = Lease(path, stale_s=0.5, settle_s=0, refresh_s=0.1)
    lease.check()
    with pytest.raises(CollectionError, match="is being written by"):
        Lease(path, stale_s=0.5)
    write_text(path, json.dumps(far | {"token": "z"}))
    with pytest.raises(CollectionError, match="was lost to ann on far"):
        lease.check()
    lease.release()
    assert [p.name for p, _ in sizes(path.parent)] == ["LOCK"]
    write_text(path, "no JSON")
    with pytest.raises(CollectionError, match="by another process"):
        Lease(path)


def test_a_writer_that_lost_its_lease_publishes_nothing(bucket: str) -> None:
    home = f"{bucket}/c"
    publish(home, 1)
    with Writer(home) as writer:
        remove(writer.path / "LOCK")
        with pytest.raises(CollectionError, match="was lost to nobody"):
            writer.publish({"format": FORMAT})
    assert Collection.open(home).version == "v000001"


def test_a_lock_on_disk_says_who_and_since_when(tmp_path: Path) -> None:
    with Writer(tmp_path):
        assert "process" in (tmp_path / "LOCK").read_text()
        with pytest.raises(CollectionError, match=r"\(process \d+, since 20"):
            Writer(tmp_path).__enter__()
