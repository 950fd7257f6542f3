"""Ingests in which a language model writes contexts: the fake one, on real Ray."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_corpus import FAKE

from rag_cluster import config, inspection, pipeline
from rag_cluster.deletion import delete
from rag_cluster.storage import Collection

pytestmark = pytest.mark.usefixtures("ray_session")

FAKE_LLM = ["enrich.kind=heading+contextual", "enrich.context_tokens=12", "llm.engine=fake"]


def ingest(source: Path, path: Path, *settings: str, **options: object) -> Collection:
    pipeline.ingest(
        [str(source)], path, config.load(None, [*FAKE, *FAKE_LLM, *settings]), **options
    )
    return Collection.open(path)


def written(opened: Collection) -> dict[str, int]:
    counts: dict[str, int] = opened.manifest["llm"]["written"]
    return counts


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for name, subject in (("a", "whales"), ("b", "glaciers"), ("c", "violins")):
        parts = [
            f"# Part {i}\n\n" + f"The {subject} number {i} are described here at length. " * 4
            for i in range(4)
        ]
        (folder / f"{name}.md").write_text("\n\n".join(parts))
    return folder


def test_what_the_model_wrote_stands_before_chunks_and_nothing_is_asked_twice(
    source: Path, tmp_path: Path
) -> None:
    path = tmp_path / "c"
    first = ingest(source, path)
    chunks = first.chunks().table
    searchable = [row for row in chunks.to_pylist() if row["searchable"]]
    assert written(first)["answers"] == len(searchable)
    assert written(first)["failed"] == 0
    assert all("\n" in row["context"] for row in searchable)  # a heading line and a context
    assert "whales" in next(r["context"] for r in searchable if r["uri"].endswith("a.md"))
    assert inspection.audit(first)["problems"] == []

    other = ingest(source, path, "embed.model=fake:32")  # all is chunked and embedded again
    assert other.version != first.version
    assert written(other)["answers"] == 0
    assert other.chunks().table["context"].to_pylist() == chunks["context"].to_pylist()

    (source / "b.md").write_text("# One\n\nA text on something else.\n\n# Two\n\nAnd more. " * 5)
    third = ingest(source, path, "embed.model=fake:32", sync=True)
    rows = third.chunks().table.to_pylist()
    changed = [row for row in rows if row["uri"].endswith("b.md") and row["searchable"]]
    assert written(third)["answers"] == len(changed)
    assert len({row["chunk_id"] for row in rows if row["searchable"]}) == sum(
        third.shard_path("generated", shard).exists() and _rows(third, shard)
        for shard in range(third.shards)
    )

    done = delete(path, ["a.md"])
    assert not any(done["left"].values())
    left = Collection.open(path)
    texts = [row for shard in range(left.shards) for row in _table(left, shard)]
    assert not any("whales" in row["text"] for row in texts)
    assert any("violins" in row["text"] for row in texts)


def test_a_new_prompt_asks_again(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "c"
    first = ingest(source, path)
    again = ingest(source, path, "prompts.context=$passage of $document")
    assert written(again)["answers"] == written(first)["answers"]
    assert again.manifest["documents"] == first.manifest["documents"]


def _table(opened: Collection, shard: int) -> list[dict[str, object]]:
    from rag_cluster.storage import read_shard

    rows: list[dict[str, object]] = read_shard(opened.shard_path("generated", shard)).to_pylist()
    return rows


def _rows(opened: Collection, shard: int) -> int:
    return len(_table(opened, shard))
