"""Semantic chunks and late chunking through the whole pipeline: what is made, and what is kept."""

from pathlib import Path

import numpy as np
import pytest

from rag_cluster import config, pipeline
from rag_cluster.answer.opening import query_config
from rag_cluster.errors import CollectionError
from rag_cluster.inspection import audit
from rag_cluster.models.fakes import FakeEncoder
from rag_cluster.storage import Collection, read_table

SETTINGS = ["embed.model=fake:64", "enrich.kind=heading", "enrich.max_tokens=24",
            "chunk.strategy=semantic", "chunk.size=40", "chunk.min_size=4",
            "chunk.semantic.threshold=.45", "resources.encoders=1"]  # fmt: skip


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"# {Path(name).stem}\n\n{text}\n")


def vectors_of(path: Path) -> dict[str, tuple[str, np.ndarray]]:
    """The name and the vector of each chunk, by its text."""
    opened = Collection.open(path)
    table = read_table(opened.shard_path("vectors", 0))
    texts = opened.chunks().table["text"].to_pylist()[: table.num_rows]
    rows = zip(table["text_hash"].to_pylist(), table["vector"].to_pylist(), strict=True)
    return {
        text: (name, np.array(v, np.float32)) for text, (name, v) in zip(texts, rows, strict=True)
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, ray_session: None) -> tuple[Path, Path]:
    """Sources, and their collection in late chunking after it was made in mode passage."""
    folder = tmp_path_factory.mktemp("late")
    sources, path = folder / "sources", folder / "collection"
    write(sources, "Pump.md", "The pump has a valve. The pump has two seals. A rose has thorns.")
    write(sources, "Rose.md", "A rose has thorns. Tulips need water in May.")
    first = pipeline.ingest([str(sources)], path, config.load(None, SETTINGS))
    assert first["work"] == {"files": 2, "documents": 2, "texts": first["chunks"]}
    late = config.load(None, [*SETTINGS, "embed.mode=late"])
    second = pipeline.ingest([str(sources)], path, late)
    # Chunked again from their stored text, with no vector of the other mode among them.
    assert second["work"] == {"files": 0, "documents": 2, "texts": second["chunks"]}
    assert audit(Collection.open(path))["problems"] == []
    return sources, path


def test_chunks_follow_the_subjects(made: tuple[Path, Path]) -> None:
    texts = list(vectors_of(made[1]))
    assert "# Pump\n\nThe pump has a valve. The pump has two seals." in texts
    assert "A rose has thorns." in texts


def test_vectors_are_of_the_document_and_not_of_the_context(made: tuple[Path, Path]) -> None:
    found = vectors_of(made[1])
    own = FakeEncoder(64).encode(list(found))
    np.testing.assert_array_equal(np.stack([vector for _, vector in found.values()]), own)
    opened = Collection.open(made[1])
    assert opened.manifest["encoder"]["mode"] == "late"
    assert all(opened.chunks().table["context"].to_pylist())


def test_a_search_in_the_other_mode_is_refused(made: tuple[Path, Path]) -> None:
    with pytest.raises(CollectionError, match=r"embed\.mode = 'late'"):
        query_config(Collection.open(made[1]), None, ["embed.mode=passage"])


def test_only_a_changed_document_gets_new_vectors(made: tuple[Path, Path]) -> None:
    sources, path = made
    late = config.load(None, [*SETTINGS, "embed.mode=late"])
    before = vectors_of(path)
    assert pipeline.ingest([str(sources)], path, late)["changes"]["unchanged"] == 2
    write(sources, "Rose.md", "A rose has thorns. Tulips need much water in May.")
    summary = pipeline.ingest([str(sources)], path, late)
    assert summary["work"] == {"files": 1, "documents": 1, "texts": 2}
    after = vectors_of(path)
    pump = "# Pump\n\nThe pump has a valve. The pump has two seals."
    assert after[pump][0] == before[pump][0]
    # The sentence is as it was, but what it was read with is not.
    rose = next(text for text in after if text.startswith("# Rose"))
    assert rose in before
    assert after[rose][0] != before[rose][0]
