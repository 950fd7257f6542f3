"""The pipeline on real Ray: what it makes, whatever the number of shards, and what survives."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pyarrow as pa
import pytest
from small_corpus import FAKE, write_corpus

from rag_cluster import cluster, config, inspection, pipeline
from rag_cluster.answer.query import Engine
from rag_cluster.changes import find_changes
from rag_cluster.deletion import delete
from rag_cluster.errors import ConfigError, IngestError, ModelError, SourceError, UsageError
from rag_cluster.hashes import Hashes
from rag_cluster.plan import Plan
from rag_cluster.progress import Progress, Snapshot
from rag_cluster.run import Run
from rag_cluster.schema import DOCUMENT, FILE
from rag_cluster.steps import check
from rag_cluster.storage import Collection, Writer
from rag_cluster.work import no_documents

pytestmark = pytest.mark.usefixtures("ray_session")


def ingest(source: Path, path: Path, *settings: str) -> dict[str, object]:
    return pipeline.ingest([str(source)], path, config.load(None, [*FAKE, *settings]))


def test_every_file_and_record_is_a_row_and_the_audit_finds_no_problem(collection: Path) -> None:
    opened = Collection.open(collection)
    assert opened.manifest["documents"] == {"ok": 23, "empty": 0, "failed": 1}
    assert inspection.audit(opened)["problems"] == []
    (failure,) = inspection.failures(opened)["failures"]
    assert failure["documents"][0]["uri"].endswith("/broken.pdf")
    assert opened.manifest["encoder"]["model"] == "fake:64"


def test_metadata_becomes_typed_columns(collection: Path) -> None:
    table = Collection.open(collection).chunks().table
    assert table.schema.field("year").type == pa.int64()
    years = {row["uri"]: row["year"] for row in table.select(["uri", "year"]).to_pylist()}
    assert {year for uri, year in years.items() if "#r" in uri} == set(range(2000, 2020))


def test_shards_do_not_change_what_is_found(corpus: Path, collection: Path, tmp_path: Path) -> None:
    fields = "metadata.fields={year: int, kind_of: keyword}"
    ingest(corpus, tmp_path / "c", "index.shards=3", fields)
    one, three = Engine.open(collection), Engine.open(tmp_path / "c")
    assert three.collection.shards == 3
    for query in ("when do roses bloom", "star colour", "pressure limit of the pump"):
        for where in (None, {"year": {"gte": 2005}}):
            left = asyncio.run(one.search(query, where=where)).hits
            right = asyncio.run(three.search(query, where=where)).hits
            assert [hit.chunk_id for hit in left] == [hit.chunk_id for hit in right]
            assert [h.score for h in left] == pytest.approx([h.score for h in right], abs=1e-5)


def test_a_second_run_gives_the_same_chunks(corpus: Path, collection: Path, tmp_path: Path) -> None:
    fields = "metadata.fields={year: int, kind_of: keyword}"
    ingest(corpus, tmp_path / "c", fields)
    first = Collection.open(collection).chunks().table
    assert first.equals(Collection.open(tmp_path / "c").chunks().table)


def test_documents_of_other_sources_stay_and_changed_ones_are_replaced(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    write_corpus(first)
    ingest(first, tmp_path / "c")
    second.mkdir()
    (second / "new.txt").write_text("Owls hunt at night.")
    summary = ingest(second, tmp_path / "c")
    assert summary["documents"] == {"ok": 24, "empty": 0, "failed": 1}
    assert summary["this_run"] == {"ok": 1, "empty": 0, "failed": 0}
    (first / "garden.txt").write_text("The garden is closed.")
    ingest(first, tmp_path / "c")
    opened = Collection.open(tmp_path / "c")
    assert opened.version == "v000003"
    assert inspection.audit(opened)["problems"] == []
    hits = asyncio.run(Engine.open(tmp_path / "c").search("garden", top_k=30)).hits
    assert [hit.text for hit in hits if hit.uri.endswith("garden.txt")] == ["The garden is closed."]
    assert any(hit.uri.endswith("new.txt") for hit in hits)


def test_other_settings_make_all_documents_anew_from_their_stored_text(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("One.")
    (tmp_path / "two.txt").write_text("Two.")
    ingest(tmp_path / "one.txt", tmp_path / "c")
    (tmp_path / "one.txt").unlink()
    summary = ingest(tmp_path / "two.txt", tmp_path / "c", "embed.model=fake:32")
    assert summary["changes"] == {"added": 1, "changed": 0, "unchanged": 1, "removed": 0}
    assert summary["work"] == {"files": 1, "documents": 2, "texts": 2}
    opened = Collection.open(tmp_path / "c")
    assert opened.manifest["encoder"]["dim"] == 32
    assert inspection.audit(opened)["problems"] == []
    assert opened.manifest["searchable"] == 2


def test_two_records_with_one_id_are_one_document_and_one_failure(tmp_path: Path) -> None:
    rows = [{"_id": "a", "text": "Rain falls."}, {"_id": "a", "text": "Snow falls."}]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = ingest(tmp_path / "r.jsonl", tmp_path / "c")
    assert summary["documents"] == {"ok": 1, "empty": 0, "failed": 1}
    opened = Collection.open(tmp_path / "c")
    assert inspection.audit(opened)["problems"] == []
    assert inspection.failures(opened)["failures"][0]["error"] == "duplicate id"


def test_large_records_with_one_id_do_not_replace_each_other(tmp_path: Path) -> None:
    long = " ".join(f"Word {i} falls." for i in range(20_000))
    rows = [{"_id": "a", "text": f"{start} {long}"} for start in ("Rain.", "Snow.")]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    summary = ingest(tmp_path / "r.jsonl", tmp_path / "c", "chunk.size=180", "enrich.kind=none")
    assert summary["documents"] == {"ok": 1, "empty": 0, "failed": 1}
    assert inspection.audit(Collection.open(tmp_path / "c"))["problems"] == []


def test_what_was_mended_or_removed_in_a_file_is_replaced(tmp_path: Path) -> None:
    source = tmp_path / "r.jsonl"
    source.write_text('{"_id": "a", "text": "Rain falls."}\n{broken\n{"_id": "b", "text": "Go."}\n')
    first = ingest(source, tmp_path / "c")
    assert first["documents"] == {"ok": 2, "empty": 0, "failed": 1}
    source.write_text('{"_id": "a", "text": "Rain falls."}\n')
    second = ingest(source, tmp_path / "c")
    assert second["documents"] == {"ok": 1, "empty": 0, "failed": 0}
    third = ingest(source, tmp_path / "c", "chunk.size=60")
    assert third["documents"] == {"ok": 1, "empty": 0, "failed": 0}


def test_a_collection_of_nothing_but_failures_is_published_and_searched(tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7\n")
    summary = ingest(tmp_path / "broken.pdf", tmp_path / "c", "index.shards=2")
    assert summary["chunks"] == 0
    engine = Engine.open(tmp_path / "c")
    assert asyncio.run(engine.search("anything")).hits == []


def test_mistakes_are_found_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("One.")
    with pytest.raises(SourceError):
        ingest(tmp_path / "none", tmp_path / "c")
    with pytest.raises(ModelError):
        ingest(tmp_path / "one.txt", tmp_path / "c", "embed.model=/no/such/model")
    assert not (tmp_path / "c").exists()


def test_a_string_is_no_list_of_sources_or_documents(collection: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"sources are a list: \['/docs'\]"):
        pipeline.ingest("/docs", tmp_path / "c", config.load(None, FAKE))
    with pytest.raises(UsageError, match=r"documents are a list: \['d.md'\]"):
        delete(collection, "d.md")


def test_progress_that_cannot_be_shown_is_an_error_of_the_caller(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("One. " * 40)

    def show(_: Snapshot) -> None:
        raise ValueError("no screen")

    with pytest.raises(ValueError, match="no screen"):
        pipeline.ingest(
            [str(tmp_path / "one.txt")], tmp_path / "c", config.load(None, FAKE), on_progress=show
        )


def test_work_that_fails_leaves_the_published_version(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("One. " * 40)
    ingest(tmp_path / "one.txt", tmp_path / "c")
    with pytest.raises(ConfigError, match="cannot make and train"):
        ingest(tmp_path / "one.txt", tmp_path / "c", "index.dense.factory=IVF64,Flat")
    formula = "$$" + " + ".join(f"x_{i}" for i in range(300)) + "$$"
    (tmp_path / "one.txt").write_text(formula)
    with pytest.raises(IngestError, match=r"embed\.truncation.*the same command goes on"):
        ingest(tmp_path / "one.txt", tmp_path / "c", "embed.truncation=fail")
    opened = Collection.open(tmp_path / "c")
    assert opened.version == "v000001"
    assert [p.name for p in (tmp_path / "c" / "versions").iterdir()] == ["v000001"]
    summary = ingest(tmp_path / "one.txt", tmp_path / "c")
    assert summary["truncated"]["chunks"] == 1


def test_steps_that_do_not_fit_are_named(tmp_path: Path) -> None:
    nothing = find_changes(FILE.empty_table(), no_documents(), no_documents(), "p", fits=True)
    with Writer(tmp_path / "c") as writer:
        run = Run(
            config=config.Config(), size=cluster.Size(2, 0), encoder={"dim": 8}, model=None,
            writer=writer, old=None, changes=nothing, current=Hashes.of([]), known=(), fits=True,
        )  # fmt: skip
        plan = Plan(run, Progress.start(FILE.empty_table()))
    plan.consume()
    steps = [*plan.reading, *plan.making]
    assert (steps[0].takes, steps[0].gives) == (FILE, DOCUMENT)
    with pytest.raises(ConfigError, match=r"'embed' takes .* 'parse' does not give"):
        check([steps[0], steps[4]])


@pytest.mark.parametrize(("cpus", "gpus"), [(1, 0), (2, 0), (4, 0), (16, 0), (64, 0), (16, 4)])
def test_every_step_has_its_share_of_the_cluster(cpus: int, gpus: int) -> None:
    made = config.load(None, [f"resources.encoder_gpus={int(gpus > 0)}"])
    plan = cluster.share(made, cluster.Size(cpus, gpus))
    taken = plan.parsers * plan.parse_cpus + plan.encoders * plan.encoder_cpus + plan.task_cpus
    assert taken <= cpus
    assert plan.encoders == (gpus or min(cpus, max(4, cpus // 4)))
    assert gpus or plan.encoders * plan.encoder_threads == cpus


@pytest.mark.parametrize(("cpus", "gpus"), [(1, 0), (2, 0), (16, 0), (16, 1), (16, 3), (16, 4)])
@pytest.mark.parametrize("steps", [2, 3])
def test_steps_that_encode_share_what_one_would_get(cpus: int, gpus: int, steps: int) -> None:
    made = config.load(None, [f"resources.encoder_gpus={int(gpus > 0)}"])
    plan = cluster.share(made, cluster.Size(cpus, gpus), None, steps)
    workers = plan.encoders * steps
    taken = plan.parsers * plan.parse_cpus + workers * plan.encoder_cpus + plan.task_cpus
    assert taken <= cpus
    assert workers * plan.encoder_gpus <= gpus
    assert (plan.encoder_gpus > 0) == (gpus > 0)


def test_for_little_work_one_encoder_is_loaded() -> None:
    made = config.Config()
    little = cluster.share(made, cluster.Size(8, 0), 1000)
    assert (little.encoders, little.encoder_threads, little.encoder_cpus) == (1, 4, 1)
    assert cluster.share(made, cluster.Size(8, 0), 10**9) == cluster.share(made, cluster.Size(8, 0))
    asked = config.load(None, ["resources.encoders=3"])
    assert cluster.share(asked, cluster.Size(8, 0), 1000).encoders == 3


def test_gpus_that_are_not_there_are_named() -> None:
    made = config.load(None, ["resources.encoder_gpus=1"])
    with pytest.raises(ConfigError, match="the cluster has 0 GPUs"):
        cluster.share(made, cluster.Size(8, 0))


@pytest.mark.parametrize("cpus", [1, 2, 4, 16])
@pytest.mark.parametrize("engines", [1, 3])
def test_a_language_model_leaves_cpus_for_what_writes_its_prompts(cpus: int, engines: int) -> None:
    settings = ["enrich.kind=contextual", "llm.engine=fake", f"llm.engines={engines}"]
    plan = cluster.share(config.load(None, settings), cluster.Size(cpus, 0))
    taken = plan.parsers * plan.parse_cpus + engines * plan.engine_cpus + 2 * plan.task_cpus
    assert taken <= cpus
    assert plan.engine_cpus == 1 or taken == pytest.approx(cpus)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["resources.encoders=1", "resources.encoder_cpus=2"],
         "resources.encoders x resources.encoder_cpus is 2, but of the 2 CPUs .* can have 1"),
        (["enrich.kind=contextual", "llm.engine=fake", "llm.engine_cpus=2"],
         "llm.engines x llm.engine_cpus is 2, but of the 2 CPUs .* can have 1"),
        (["enrich.kind=contextual", "llm.engine=fake", "llm.engines=2", "llm.engine_gpus=0.6"],
         "llm.engine_gpus is 1.2, but the cluster has 1 GPUs"),
    ],
)  # fmt: skip
def test_workers_that_would_starve_the_others_are_refused(settings: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        cluster.share(config.load(None, settings), cluster.Size(2, 1))
