"""The example corpus: it can be made again, and each answer is where it is said to be."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import docx
import pymupdf
import pytest

from examples.make_corpus import BROKEN, make_all
from examples.source import read_source

EXAMPLES = Path(__file__).parent.parent / "examples"
CORPUS = EXAMPLES / "corpus"
SCAN = "site-survey-scan.pdf"


@pytest.fixture(scope="module")
def made() -> dict[str, bytes]:
    return make_all()


@pytest.fixture(scope="module")
def questions() -> list[dict]:
    lines = (EXAMPLES / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def plain(text: str) -> str:
    return " ".join(text.split())


def text_of(document: str, page: int | None) -> str:
    """The text of a page, a record (by its id) or a whole document, as another tool reads it."""
    path = CORPUS / document
    if page is not None:
        return plain(pymupdf.open(path)[page - 1].get_text())
    if path.suffix == ".pdf":
        return plain(" ".join(p.get_text() for p in pymupdf.open(path)))
    if path.suffix == ".docx":
        written = docx.Document(str(path))
        cells = [cell.text for table in written.tables for row in table.rows for cell in row.cells]
        return plain(" ".join([*(p.text for p in written.paragraphs), *cells]))
    if path.suffix:
        return plain(path.read_text(encoding="utf-8"))
    lines = (CORPUS / "faq.jsonl").read_text(encoding="utf-8").splitlines()
    return {r["_id"]: r["text"] for r in map(json.loads, lines)}[document]


def test_the_same_sources_give_the_same_bytes(made, tmp_path):
    command = [sys.executable, "-m", "examples.make_corpus", str(tmp_path)]
    subprocess.run(command, cwd=EXAMPLES.parent, check=True, timeout=120)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == made


def test_committed_documents_are_what_the_sources_give(made):
    for name, data in made.items():
        if name.endswith(".docx") or name in {BROKEN, SCAN}:
            assert (CORPUS / name).exists()
            continue
        committed, fresh = pymupdf.open(CORPUS / name), pymupdf.open(stream=data, filetype="pdf")
        assert [p.get_text() for p in committed] == [p.get_text() for p in fresh]
        assert committed.get_toc() == fresh.get_toc()


def test_the_corpus_has_every_format():
    suffixes = {path.suffix for path in CORPUS.iterdir()}
    assert suffixes == {".pdf", ".docx", ".html", ".md", ".txt", ".jsonl"}


def test_nothing_can_be_read_from_the_broken_file():
    try:
        pages = pymupdf.open(CORPUS / BROKEN).page_count
    except pymupdf.FileDataError:
        pages = 0
    assert pages == 0


def test_the_scan_has_no_text_layer():
    assert [page.get_text() for page in pymupdf.open(CORPUS / SCAN)] == [""]


def test_each_answer_stands_in_each_of_its_sources(questions):
    for question in questions:
        evidence = [text_of(s["document"], s.get("page")) for s in question["sources"]]
        assert question["answer"] in evidence[0], question["_id"]


def test_no_other_page_of_the_document_holds_the_answer_alone(questions):
    """A question whose answer is a phrase of its own has all the pages with it in its sources."""
    for question in questions:
        named = {(s["document"], s.get("page")) for s in question["sources"]}
        for document in {d for d, page in named if page is not None}:
            pages = [plain(page.get_text()) for page in pymupdf.open(CORPUS / document)]
            holding = {n for n, text in enumerate(pages, 1) if question["answer"] in text}
            if len(question["answer"]) > 14:
                assert {(document, n) for n in holding} <= named, question["_id"]


def test_a_question_is_judged_by_page_or_by_document(questions):
    for question in questions:
        assert len({"page" in source for source in question["sources"]}) == 1, question["_id"]


def test_qrels_say_the_same_as_the_questions(questions):
    expected = [
        (q["_id"], s["document"], str(s.get("page", "")), "1")
        for q in questions
        for s in q["sources"]
    ]
    with (EXAMPLES / "qrels.tsv").open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, delimiter="\t")
    assert header == ["query-id", "corpus-id", "page", "score"]
    assert [tuple(row) for row in rows] == expected


def test_a_source_is_read_into_its_blocks():
    source = read_source(
        "---\ntitle: T\n---\n# One\n\nText.\n\n- a\n- b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n"
        "$$ a = b $$\n\n---\n"
    )
    assert source.front == {"title": "T"}
    kinds = [block.kind for block in source.blocks]
    assert kinds == ["heading", "paragraph", "item", "item", "table", "formula", "page"]
    assert source.blocks[4].rows == [["x", "y"], ["1", "2"]]
    assert source.blocks[5].text == "a = b"
