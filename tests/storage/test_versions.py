from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from written import NAME, publish

from rag_cluster.cli import run
from rag_cluster.config import Config, Embed
from rag_cluster.errors import CollectionError, MissingExtraError, UsageError
from rag_cluster.storage import Collection, Writer, check_current, check_place, place, write_file
from rag_cluster.storage.files import remove, sizes
from rag_cluster.storage.manifest import write_manifest
from rag_cluster.storage.versions import list_versions, prune, roll_back


def names(path: str) -> list[str]:
    return [row["version"] for row in list_versions(path)]


def test_versions_are_listed_rolled_back_and_pruned(home: str) -> None:
    assert [publish(home, rows) for rows in (1, 2, 3, 4)] == [f"v00000{i}" for i in (1, 2, 3, 4)]
    rows = list_versions(home)
    assert [row["chunks"] for row in rows] == [1, 2, 3, 4]
    assert [row["current"] for row in rows] == [False, False, False, True]
    assert all(row["bytes"] > 0 and row["problem"] is None for row in rows)
    old = Collection.open(home, "v000001")
    back = roll_back(home, "v000001")
    assert back == {"collection": home, "version": "v000001", "before": "v000004"}
    assert Collection.open(home).version == "v000001"
    told: list[int] = []
    done = prune(home, 2, on_delete=lambda manifest: told.append(manifest["chunks"]))
    assert (done["deleted"], done["kept"]) == (["v000002"], ["v000001", "v000003", "v000004"])
    assert done["bytes"] == rows[1]["bytes"]
    assert told == [2]
    assert not [file for file, _ in sizes(place(home)) if "v000002" in str(file)]
    assert prune(home, 1)["deleted"] == ["v000003"]
    assert list(old.problems()) == []
    assert publish(home, 5) == "v000005"
    with pytest.raises(UsageError, match="at least one"):
        prune(home, 0)


def test_a_version_whose_index_cannot_be_deleted_stays(home: str) -> None:
    publish(home, 1)
    publish(home, 2)

    def refuse(_: object) -> None:
        raise CollectionError("the server does not answer")

    with pytest.raises(CollectionError, match="does not answer"):
        prune(home, 1, on_delete=refuse)
    assert names(home) == ["v000001", "v000002"]
    assert prune(home, 1)["deleted"] == ["v000001"]


def test_a_current_version_that_is_gone_is_said_and_rolled_back(home: str) -> None:
    publish(home, 1)
    publish(home, 2)
    remove(place(home) / "versions" / "v000002")
    message = r"CURRENT names v000002, which is not there; there are v000001: 'rag-cluster rollback"
    for refused in (
        Collection.open,
        lambda path: check_current(place(path)),
        lambda p: prune(p, 1),
    ):
        with pytest.raises(CollectionError, match=message):
            refused(home)
    assert [row["current"] for row in list_versions(home)] == [False]
    with pytest.raises(CollectionError, match=r"v000009 is not in .*: there are v000001"):
        roll_back(home, "v000009")
    with pytest.raises(CollectionError, match=r"\.\./x is not in"):
        roll_back(home, "../x")
    roll_back(home, "v000001")
    assert Collection.open(home).version == "v000001"
    assert publish(home, 3) == "v000002"


def test_what_is_damaged_is_found_when_it_is_opened(home: str) -> None:
    publish(home, 1000)
    opened = Collection.open(home)
    path = opened.folder / "chunks" / "shard-00000.parquet"
    good = path.read_bytes()
    write_file(path, lambda p: p.write_bytes(good[:-1]))
    with pytest.raises(CollectionError, match=rf"{NAME} has .* bytes and not .*: go back to"):
        Collection.open(home)
    write_file(path, lambda p: p.write_bytes(good[:-1] + b"?"))
    problem = (NAME, "differs from its checksum")
    assert list(Collection.open(home, verify=False).problems()) == [problem]
    if not home.startswith("s3://"):  # there, what is copied is compared when it is copied
        with pytest.raises(CollectionError, match="differs from its checksum"):
            Collection.open(home)
    remove(path)
    with pytest.raises(CollectionError, match=f"{NAME} is missing"):
        Collection.open(home)


def test_absent_newer_and_broken_collections_are_named(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="there is no collection at"):
        Collection.open(tmp_path / "none")
    with pytest.raises(CollectionError, match="there is no collection at"):
        list_versions(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    publish(str(tmp_path / "c"), 1)
    manifest = tmp_path / "c" / "versions" / "v000001" / "manifest.json"
    tree = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(tree | {"chunks": 7}))
    with pytest.raises(CollectionError, match="differs from its own checksum"):
        Collection.open(tmp_path / "c")
    manifest.write_text(json.dumps({"format": 99}))
    with pytest.raises(CollectionError, match="newer version of rag-cluster"):
        Collection.open(tmp_path / "c")
    manifest.write_text("{")
    with pytest.raises(CollectionError, match="cannot be read"):
        Collection.open(tmp_path / "c")
    assert "cannot be read" in list_versions(tmp_path / "c")[0]["problem"]
    shutil.rmtree(manifest.parent)
    with pytest.raises(CollectionError, match=r"there is none: remove .*CURRENT and ingest again"):
        Collection.open(tmp_path / "c")


def test_settings_that_this_version_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "c")
    publish(path, 1)
    opened = Collection.open(path)
    newer = Config().model_dump(mode="json") | {"graph": {"hops": 2}}
    about = {"config": newer, "libraries": {"rag-cluster": "99.1"}}
    write_manifest(opened.folder, opened.manifest | about)
    said = r"was made by another version of rag-cluster \(99\.1, this is .*unknown .* key 'graph'"
    with pytest.raises(CollectionError, match=said):
        _ = Collection.open(path).config
    for command in (["search", "pumps"], ["ingest", str(tmp_path)]):
        assert run([*command, "--collection", path]) == 2
        complaint = capsys.readouterr().err
        assert "another version of rag-cluster (99.1" in complaint
        assert f"'rag-cluster ingest SOURCE... --collection {path} --config FILE'" in complaint
    older = {"config": {"embed": {"model": "fake:8"}}}  # made before the other settings were there
    write_manifest(opened.folder, opened.manifest | older)
    assert Collection.open(path).config == Config(embed=Embed(model="fake:8"))


def test_places_that_cannot_hold_a_collection(tmp_path: Path, bucket: str) -> None:
    (tmp_path / "f").write_text("x")
    for path in (tmp_path / "f", tmp_path / "f" / "below"):
        with pytest.raises(CollectionError, match="is a file, and a collection is a folder"):
            check_place(path)
    with pytest.raises(CollectionError, match="is a file"):
        Writer(tmp_path / "f").__enter__()
    write_file(place(f"{bucket}/f"), lambda p: p.write_text("x"))
    with pytest.raises(CollectionError, match="is a file"):
        check_place(f"{bucket}/f")
    assert str(check_place(f"{bucket}/free/")) == f"{bucket}/free"
    with pytest.raises(CollectionError, match="bucket does not exist"):
        Writer("s3://no-such-bucket-here/c").__enter__()
    with pytest.raises(CollectionError, match=r"s3:// names no bucket"):
        place("s3://")
    with pytest.raises(CollectionError, match="no file system has the protocol nowhere://"):
        place("nowhere://b/c")
    with pytest.raises(MissingExtraError, match=r"'gcsfs'.*rag-cluster\[gcs\]"):
        place("gs://b/c")


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "c")
    to = ["--collection", path]
    for rows in (1, 2, 3):
        publish(path, rows)
    assert run(["versions", *to]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.split() == ["version", "created", "documents", "chunks", "MiB"]
    assert last.split()[0] == "v000003"
    assert last.endswith("current")
    assert run(["rollback", "v000002", *to]) == 0
    assert capsys.readouterr().out == "v000002 is current (before: v000003)\n"
    assert run(["prune", "--keep", "1", *to]) == 0
    assert capsys.readouterr().out.endswith("kept v000002, v000003\n")
    assert run(["versions", *to, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(row["version"], row["current"]) for row in report["versions"]] == [
        ("v000002", True), ("v000003", False)
    ]  # fmt: skip
    assert run(["rollback", "v000001", *to]) == 2
    assert "v000001 is not in" in capsys.readouterr().err
    assert run(["prune", "--keep", "0", *to]) == 2
