from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_documents import Made, made

from rag_cluster import config
from rag_cluster.chunk.audit import audit
from rag_cluster.chunk.document import prepare
from rag_cluster.chunk.fixed import fixed
from rag_cluster.chunk.stage import Chunker, chunker_fingerprint
from rag_cluster.models.fakes import FakeEncoder
from rag_cluster.models.tokenizer import load_tokenizer

STRATEGIES = ["section", "recursive", "sentence", "fixed", "semantic"]
SIZES = st.sampled_from([(16, 0, 0), (16, 6, 4), (32, 8, 12), (60, 20, 24), (180, 20, 24)])


def chunks_of(document: Made, strategy: str, sizes: tuple[int, int, int]) -> list[dict[str, Any]]:
    size, overlap, least = sizes
    if strategy == "semantic":
        overlap = 0
    chunk = {"strategy": strategy, "size": size, "overlap": overlap, "min_size": least}
    tree = config.build({"chunk": chunk})
    documents = document.documents()
    chunks = Chunker(tree, encoder=FakeEncoder(16))(documents)
    assert audit(documents, chunks, chunker_fingerprint(tree)) == []
    return chunks.to_pylist()


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=40, deadline=None)
@given(document=made(), sizes=SIZES)
def test_what_holds_for_every_document(
    strategy: str, document: Made, sizes: tuple[int, int, int]
) -> None:
    rows = chunks_of(document, strategy, sizes)
    searched = [row for row in rows if row["searchable"]]
    trimmed_and_measured(rows)
    ends_move_on(searched)
    covers(document, searched, strategy)
    keeps_to_the_size(document, searched, strategy, sizes[0])
    if strategy != "fixed":
        cuts_nothing_whole(document, searched)
    if strategy == "section":
        stays_in_sections(document, rows)


def trimmed_and_measured(rows: list[dict[str, Any]]) -> None:
    tokenizer = load_tokenizer(config.PACKAGED_ENCODER)
    for row in rows:
        assert row["text"] == row["text"].strip() != ""
        assert row["tokens"] == tokenizer.count([row["text"]])[0]


def ends_move_on(rows: list[dict[str, Any]]) -> None:
    for before, after in pairwise(rows):
        assert before["start"] < after["start"]
        assert before["end"] < after["end"]


def covers(document: Made, rows: list[dict[str, Any]], strategy: str) -> None:
    covered = {at for row in rows for at in range(row["start"], row["end"])}
    # A heading with nothing under it but further sections stands in their paths instead.
    said = set()
    if strategy == "section":
        parents = {section["parent"] for section in document.sections}
        for index, section in enumerate(document.sections):
            if index in parents and not document.text[section["body"] : section["end"]].strip():
                said.update(range(section["start"], section["body"]))
                assert any(section["title"] in row["section_path"] for row in rows)
    for at, character in enumerate(document.text):
        assert character.isspace() or at in covered or at in said


def keeps_to_the_size(document: Made, rows: list[dict[str, Any]], strategy: str, size: int) -> None:
    tokenizer = load_tokenizer(config.PACKAGED_ENCODER)
    units = document.formulas + document.rows
    for row in rows:
        tokens = row["tokens"] + tokenizer.count([row["header"]])[0]
        if tokens > size:
            inside = [u for u in units if row["start"] <= u[0] and u[1] <= row["end"]]
            if strategy == "fixed":
                assert not row["text"].split()[1:], "a window of more than one word"
            elif row["kind"] == "table":
                assert len([u for u in inside if u in document.rows]) <= 1
            else:
                assert inside, "larger than the size without a formula in it"


def cuts_nothing_whole(document: Made, rows: list[dict[str, Any]]) -> None:
    for start, end in document.formulas + document.rows:
        assert any(row["start"] <= start and end <= row["end"] for row in rows)
    for row in rows:
        for start, end in document.formulas + document.rows:
            apart = row["end"] <= start or end <= row["start"]
            assert apart or (row["start"] <= start and end <= row["end"])


def stays_in_sections(document: Made, rows: list[dict[str, Any]]) -> None:
    spans = [(section["start"], section["end"]) for section in document.sections]
    for row in rows:
        home = [s for s in spans if s[0] <= row["start"] and row["end"] <= s[1]]
        assert len(home) == 1
        path = document.sections[spans.index(home[0])]["path"]
        assert row["section_path"] == path


@settings(max_examples=40, deadline=None)
@given(document=made(), overlap=st.integers(0, 15))
def test_fixed_windows_share_at_most_the_overlap(document: Made, overlap: int) -> None:
    chunk = config.Chunk(strategy="fixed", size=32, overlap=overlap)
    tokenizer = load_tokenizer("fake:8")
    prepared = prepare(document.row(), tokenizer, keep_whole=False, size=32)
    pieces = fixed(prepared, chunk)
    for before, after in pairwise(pieces):
        assert prepared.ruler.count(after.start, before.end) <= overlap
        assert prepared.ruler.count(before.start, before.end) >= 16


@settings(max_examples=40, deadline=None)
@given(document=made(), strategy=st.sampled_from(STRATEGIES))
def test_the_same_document_gives_the_same_chunks(document: Made, strategy: str) -> None:
    sizes = (32, 8, 12)
    assert chunks_of(document, strategy, sizes) == chunks_of(document, strategy, sizes)
