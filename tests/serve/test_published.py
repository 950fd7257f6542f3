"""The version that a service answers from, as what lies on disk changes."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from small_corpus import FAKE

from rag_cluster import config, pipeline
from rag_cluster.errors import CollectionError
from rag_cluster.storage import Collection
from serve.backend import in_process
from serve.options import Options


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, ray_session: None) -> tuple[Path, Path]:
    """Two collections of one document each, both at v000001."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "cranes.md").write_text("# Cranes\n\nThe harbour crane lifts forty tonnes.\n")
    (folder / "tugs.md").write_text("# Tugs\n\nTwo tugs turn the ferry.\n")
    for name in ("cranes", "tugs"):
        pipeline.ingest([str(folder / f"{name}.md")], folder / name, config.load(None, FAKE))
    return folder / "cranes", folder / "tugs"


def test_another_collection_at_the_path_is_taken_over(
    two: tuple[Path, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cranes, tugs = two
    path = tmp_path / "served"
    shutil.copytree(cranes, path)

    async def titles() -> tuple[list[str], bool, list[str]]:
        backend, published = await in_process(path, {})
        before = await backend.retriever.search("what is there", Options())
        assert not await published.refresh()
        path.rename(tmp_path / "away")
        shutil.copytree(tugs, path)
        went = await published.refresh()
        after = await backend.retriever.search("what is there", Options())
        return [h.title for h in before.found.hits], went, [h.title for h in after.found.hits]

    before, went, after = asyncio.run(titles())
    assert (before, went, after) == (["Cranes"], True, ["Tugs"])
    assert "version v000001 is served now, before it v000001" in caplog.text


def test_documents_of_another_collection_are_not_shown(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    cranes, tugs = two
    path = tmp_path / "served"
    shutil.copytree(cranes, path)
    theirs = Collection.open(tugs).documents(["doc_id"])["doc_id"][0].as_py()

    async def ask() -> None:
        backend, _ = await in_process(path, {})
        assert await backend.retriever.document(theirs, None) is None
        path.rename(tmp_path / "away")
        shutil.copytree(tugs, path)
        await backend.retriever.document(theirs, None)

    with pytest.raises(CollectionError, match="holds another collection than the one"):
        asyncio.run(ask())


def test_a_collection_that_is_gone_is_refused_and_the_old_one_answers(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    path = tmp_path / "served"
    shutil.copytree(two[0], path)

    async def told() -> tuple[bool, dict[str, object], int]:
        backend, published = await in_process(path, {})
        shutil.rmtree(path)
        went = await published.refresh()
        found = await backend.retriever.search("crane", Options())
        return went, published.status(), len(found.found.hits)

    went, status, hits = asyncio.run(told())
    assert not went
    assert status["version"] == "v000001"
    assert status["refused"]
    assert hits == 1
