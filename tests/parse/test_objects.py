from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from rag_cluster.config import Config, build
from rag_cluster.errors import MissingExtraError, SourceError
from rag_cluster.parse.sources import list_files, skipped
from rag_cluster.parse.stage import Parser
from rag_cluster.storage import place, write_file, write_table

CONFIG = Config()


@pytest.fixture(scope="module")
def parser(s3: None) -> Iterator[Parser]:
    """One child process for all tests; it is started in the environment of the server."""
    made = Parser(CONFIG)
    yield made
    made.close()


def put(url: str, data: bytes) -> None:
    write_file(place(url), lambda path: path.write_bytes(data))


def uris(sources: list[str]) -> list[str]:
    return list_files(sources, CONFIG)["uri"].to_pylist()


def test_a_prefix_is_listed_as_a_folder_would_be(bucket: str, parser: Parser) -> None:
    names = [
        "b.txt", "a/z.md", "a/ü 100%#1?.txt", "a/.hidden", ".git/config", "~$b.docx",
        "col/CURRENT", "col/versions/v000001/manifest.json", "beir/corpus.jsonl",
        "beir/queries.jsonl", "beir/qrels/test.tsv",
    ]  # fmt: skip
    for name in names:
        put(f"{bucket}/docs/{name}", f"text of {name}".encode())
    put(f"{bucket}/docs-of-others/x.txt", b"x")
    table = list_files([f"{bucket}/docs/", f"{bucket}/docs/a"], CONFIG)
    found = ["a/z.md", "a/ü 100%#1?.txt", "b.txt", "beir/corpus.jsonl"]
    assert table["uri"].to_pylist() == [f"{bucket}/docs/{name}" for name in found]
    counts = {"collection": 1, "evaluation data": 1, "hidden": 2, "hidden folder": 1}
    assert skipped(table) == counts | {"system file": 1}
    row = table.to_pylist()[2]
    assert row["size"] == len("text of b.txt")
    assert datetime.now(UTC) - row["modified"] < timedelta(minutes=10)
    put(f"{bucket}/docs/b.txt", b"other")
    assert list_files([f"{bucket}/docs/b.txt"], CONFIG).to_pylist()[0]["etag"] != row["etag"]
    texts = parser(table)
    assert texts["status"].to_pylist()[:3] == ["ok"] * 3
    assert texts["text"].to_pylist()[1] == "text of a/ü 100%#1?.txt"


def test_large_objects_of_records_are_read_in_parts(bucket: str, parser: Parser) -> None:
    config = build({"parse": {"record_part_mb": 1}})
    lines = [json.dumps({"_id": f"r{i}", "text": f"{i} " + "a" * 1000}) for i in range(1500)]
    put(f"{bucket}/c.jsonl", "\n".join(lines).encode())
    rows = {"_id": [f"p{i}" for i in range(1500)], "text": [f"{i} {i * 7919}" * 120 for i in
            range(1500)]}  # fmt: skip
    target = place(f"{bucket}/e.parquet")
    write_table(pa.table(rows), target, row_group_size=500, compression="none")
    files = list_files([bucket], config)
    parts = [name.rpartition("/")[2] for name in files["uri"].to_pylist()]
    assert parts.count("c.jsonl") == 2
    assert parts.count("e.parquet") > 1
    found = parser(files)
    assert set(found["status"].to_pylist()) == {"ok"}
    names = [uri.rpartition("#")[2] for uri in found["uri"].to_pylist()]
    assert sorted(names) == sorted([f"r{i}" for i in range(1500)] + rows["_id"])


def test_an_object_that_is_gone_is_a_failed_row(bucket: str, parser: Parser) -> None:
    put(f"{bucket}/a.txt", b"x")
    table = list_files([f"{bucket}/a.txt"], CONFIG)
    place(f"{bucket}/a.txt").unlink()
    (row,) = parser(table).to_pylist()
    assert (row["status"], row["error"]) == ("failed", "cannot be read")


def test_what_cannot_be_listed_is_said(bucket: str) -> None:
    for url in (f"{bucket}/none", "s3://no-such-bucket-here/x"):
        with pytest.raises(SourceError, match=f"(no such object or prefix:|cannot list) {url}"):
            uris([url])
    with pytest.raises(MissingExtraError, match="'gcsfs'"):
        uris(["gs://b/c"])
