"""Evaluation over a real collection: pages of a PDF, a TREC run, and values computed by hand."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import pymupdf
import pytest
from small_corpus import FAKE

from rag_cluster import config, pipeline
from rag_cluster.errors import DatasetError
from rag_cluster.evaluate.collection import CollectionEvaluation, evaluate_collection
from rag_cluster.evaluate.datasets import read_run

PAGES = (
    "Otters live beside quiet rivers and eat trout.",
    "Badgers dig deep tunnels under the forest.",
    "Herons stand still in shallow water for hours.",
)
# Each asks with the very words of a page, so that this page is the first to be found.
QUERIES = {"q1": "otters quiet rivers trout", "q2": "badgers dig deep tunnels", "q3": "herons"}
METRICS = "Success@1 RR@10 nDCG@10 R@1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, ray_session: None) -> Path:
    """A folder with a collection of a PDF of three pages and a text, and the queries."""
    folder = tmp_path_factory.mktemp("evaluate")
    source = folder / "source"
    source.mkdir()
    document = pymupdf.open()
    for words in PAGES:
        document.new_page().insert_text((72, 72), words)
    document.save(source / "animals.pdf")
    (source / "tide.txt").write_text("The tide comes twice a day.")
    settings = [*FAKE, "chunk.strategy=sentence", "chunk.min_size=0", "chunk.size=12",
                "chunk.overlap=0", "resources.encoders=1"]  # fmt: skip
    pipeline.ingest([str(source)], folder / "c", config.load(None, settings))
    rows = [json.dumps({"_id": key, "text": text}) for key, text in QUERIES.items()]
    (folder / "queries.jsonl").write_text("\n".join(rows) + "\n")
    return folder


def measure(made: Path, qrels: str, metrics: str = METRICS, **more: object) -> CollectionEvaluation:
    (made / "qrels.tsv").write_text(qrels)
    return asyncio.run(
        evaluate_collection(
            made / "c", made / "queries.jsonl", made / "qrels.tsv", metrics,
            settings=["retrieve.channels=[bm25]"], **more,
        )
    )  # fmt: skip


def test_pages_are_judged_by_the_pages_that_a_chunk_spans(made: Path) -> None:
    """q1 and q2 find their page first; the page that the qrels want for q3 is not found at all."""
    found = measure(
        made,
        "query-id\tcorpus-id\tpage\tscore\n"
        "q1\tanimals.pdf\t1\t1\nq2\tanimals.pdf\t2\t1\nq3\tanimals.pdf\t2\t1\n",
    )
    assert found.per_query["Success@1"] == {"q1": 1.0, "q2": 1.0, "q3": 0.0}
    assert found.metrics == pytest.approx(dict.fromkeys(METRICS.split(), 2 / 3))
    assert found.queries == 3


def test_graded_documents_by_hand(made: Path) -> None:
    """q1's ideal is [2, 1] (animals, tide), and BM25 finds only the first: 2 / (2 + 1/log2 3)."""
    found = measure(
        made, "query-id\tcorpus-id\tscore\nq1\tanimals\t2\nq1\ttide.txt\t1\nq2\ttide.txt\t1\n"
    )
    assert found.per_query["nDCG@10"] == pytest.approx({"q1": 2 / (2 + 1 / math.log2(3)), "q2": 0})
    assert found.per_query["R@1"] == {"q1": 0.5, "q2": 0.0}
    assert found.metrics["RR@10"] == 0.5
    assert found.queries == 2
    assert any("1 queries have no judgements" in note for note in found.notes)


def test_a_run_is_written_and_read_back(made: Path, tmp_path: Path) -> None:
    qrels = "query-id\tcorpus-id\tpage\tscore\nq1\tanimals.pdf\t1\t1\nq2\tanimals.pdf\t2\t1\n"
    measure(made, qrels, run=tmp_path / "run.trec")
    run = read_run(tmp_path / "run.trec")
    assert set(run) == {"q1", "q2"}
    first = run["q2"][0]
    assert (first.document, first.page, first.rank) == ("animals.pdf", 2, 1)
    assert all(a.score > b.score for lines in run.values() for a, b in zip(lines, lines[1:]))  # noqa: B905, RUF007


def test_documents_that_the_collection_lacks_count_as_missed(made: Path) -> None:
    found = measure(made, "q1 0 animals.pdf 1\nq1 0 whales.pdf 1\n", "R@10")
    assert found.metrics == {"R@10": 0.5}
    assert any("whales.pdf" in note for note in found.notes)


def test_qrels_of_no_document_or_no_query_are_refused(made: Path) -> None:
    with pytest.raises(DatasetError, match=r"none of the 1 documents.*whales\.pdf"):
        measure(made, "q1 0 whales.pdf 1\n")
    with pytest.raises(DatasetError, match="none of the 3 queries"):
        measure(made, "other 0 animals.pdf 1\n")
    with pytest.raises(DatasetError, match="cannot write the run"):
        measure(made, "q1 0 animals.pdf 1\n", run=made / "none" / "run.trec")
