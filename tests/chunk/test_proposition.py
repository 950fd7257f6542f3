"""What is asked for facts, how answers are read, and the chunks that come of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_documents import Made, made

from rag_cluster import config
from rag_cluster.asking import KeepGenerated, maker
from rag_cluster.chunk.audit import audit
from rag_cluster.chunk.proposition import SCHEMA, Propositions, is_rewritten, read_facts
from rag_cluster.chunk.rewrite import Rewriter, with_facts
from rag_cluster.chunk.stage import Chunker, chunker_fingerprint
from rag_cluster.errors import ConfigError
from rag_cluster.generated import Generated
from rag_cluster.models.prompting import Prompting
from rag_cluster.models.tokenizer import load_tokenizer
from rag_cluster.schema import GENERATED, rows_to_table
from rag_cluster.work import part_files

WORDS = load_tokenizer("fake:8")  # a token is a word
TREE: dict[str, Any] = {
    "chunk": {"strategy": "proposition", "size": 16, "min_size": 0,
              "proposition": {"answer_tokens": 40}},
    "embed": {"model": "fake:8"},
    "llm": {"engine": "fake", "window": 2000},
}  # fmt: skip
SETTINGS = config.build(TREE)
FINGERPRINT = chunker_fingerprint(SETTINGS)


def document() -> Made:
    return (
        Made()
        .heading("Pumps")
        .add("The pump is blue. It weighs nine kilograms.")
        .table(["| part | mass |", "|---|---|"], ["| lid | 2 kg |"])
        .heading("Valves", level=2)
        .add("One two three four five six seven. " * 5)
        .heading("References", role="references")
        .add("A book on pumps.")
    )


def asked(settings: config.Config = SETTINGS, **columns: Any) -> list[Any]:
    row = document().row(**columns)
    chunks = Chunker(settings)(document().documents(**columns)).to_pylist()
    return Propositions(settings, Prompting(settings))(row, chunks)


def test_a_request_has_the_passage_and_what_it_needs_to_be_understood() -> None:
    found = asked(title="Annual report", uri="/x/2023_acme-report.pdf")
    prompts = [one.request.messages[0].content for one in found]
    assert "Title: 2023 acme report > Annual report\nSection: Pumps\n" in prompts[0]
    assert "<passage>\nPumps\nThe pump is blue. It weighs nine kilograms.\n</passage>" in prompts[0]
    assert all("Section: Pumps > Valves\n" in prompt for prompt in prompts[1:])
    assert {one.request.max_tokens for one in found} == {40}
    assert all(one.request.json_schema == SCHEMA for one in found)
    # What all requests have in common stands first.
    assert len({prompt[: prompt.index("Title: 2023")] for prompt in prompts}) == 1


def test_tables_parents_and_references_are_not_rewritten() -> None:
    chunks = Chunker(SETTINGS)(document().documents()).to_pylist()
    requests = {one.chunk_id for one in asked()}
    assert {row["kind"] for row in chunks} == {"section", "fragment", "table"}
    for row in chunks:
        wanted = row["searchable"] and row["kind"] != "table" and row["role"] == "body"
        assert (row["chunk_id"] in requests) == wanted == is_rewritten(row)
    assert len(requests) < len(chunks) - 2


def test_a_chunk_beyond_the_window_is_not_asked_for() -> None:
    formula = "$$ " + " + ".join(f"x {i}" for i in range(550)) + " $$"
    row = Made().add("A small text.").formula(formula).row()
    chunks = Chunker(SETTINGS)(Made().add("A small text.").formula(formula).documents()).to_pylist()
    found = Propositions(SETTINGS, Prompting(SETTINGS))(row, chunks)
    assert [one.chunk_id for one in found] == [chunks[1]["chunk_id"]]
    with pytest.raises(ConfigError, match=r"no room for a chunk of 16 .*answer_tokens"):
        asked(config.build(TREE | {"llm": {"engine": "fake", "window": 400}}))


def test_the_configuration_has_its_own_template_and_picks_what_is_asked() -> None:
    own = {"prompts": {"proposition": "$title|$section|$passage"}}
    first = asked(config.build(TREE | own), title="T", uri="")[0].request.messages[0].content
    assert first == "T|Pumps|Pumps\nThe pump is blue. It weighs nine kilograms."
    assert isinstance(maker(SETTINGS, Prompting(SETTINGS)), Propositions)
    with pytest.raises(ConfigError, match=r"placeholders missing: \$section"):
        config.build(TREE | {"prompts": {"proposition": "$title $passage"}})


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ({"facts": [" A  b. ", "c\n d."]}, ["A b.", "c d."]),
        ({"facts": ["The lid is red.", "the LID is red", "The lid is blue."]},
         ["The lid is red.", "The lid is blue."]),
        ({"facts": ["", " - ", "...", "\x00\x1f", "a\x00b"]}, ["a b"]),
        ({"facts": []}, []),
        ({"facts": ["well", 3, None, ["x"]]}, ["well"]),
        ({"facts": "one"}, []),
        (["one"], []),
    ],
)  # fmt: skip
def test_facts_are_clean_and_different(answer: Any, facts: list[str]) -> None:
    assert read_facts(json.dumps(answer)) == facts


def test_what_is_no_json_holds_no_facts() -> None:
    assert read_facts("") == read_facts("The lid is red.") == read_facts('{"facts": ["a') == []


def answers(chunks: list[dict[str, Any]], *facts: str) -> dict[str, str]:
    text = json.dumps({"facts": list(facts)})
    return {row["chunk_id"]: text for row in chunks if is_rewritten(row)}


def rewritten(table: pa.Table, written: dict[str, str]) -> list[dict[str, Any]]:
    return with_facts(Chunker(SETTINGS)(table).to_pylist(), written, FINGERPRINT, WORDS)


def test_facts_stand_behind_their_chunk_which_is_no_longer_searched() -> None:
    table = document().documents(pages=[{"number": 4, "start": 0, "end": 999}])
    chunks = Chunker(SETTINGS)(table).to_pylist()
    rows = rewritten(table, answers(chunks, "A fact.", "Another fact."))
    assert [row["ordinal"] for row in rows] == list(range(len(rows)))
    assert {row["siblings"] for row in rows} == {len(rows)}
    for chunk in chunks:
        (at,) = (i for i, row in enumerate(rows) if row["chunk_id"] == chunk["chunk_id"])
        facts = [row for row in rows if row["kind"] == "proposition"
                 and row["parent_id"] == chunk["chunk_id"]]  # fmt: skip
        assert rows[at]["text"] == chunk["text"]
        assert rows[at]["parent_id"] == chunk["parent_id"]
        if not is_rewritten(chunk):
            assert facts == []
            assert rows[at]["searchable"] == chunk["searchable"]
            continue
        assert not rows[at]["searchable"]
        assert rows[at + 1 : at + 3] == facts
        assert [row["text"] for row in facts] == ["A fact.", "Another fact."]
        for row in facts:
            assert row["tokens"] == len(row["text"].split()) + 1  # a full stop is one
            for name in ("start", "end", "page_first", "section_path", "role", "title"):
                assert row[name] == chunk[name]


def test_a_chunk_without_a_fact_stays_as_it_was_cut() -> None:
    table = document().documents()
    chunks = Chunker(SETTINGS)(table).to_pylist()
    assert rewritten(table, {}) == chunks
    assert rewritten(table, answers(chunks)) == chunks
    one = dict(list(answers(chunks, "A fact.").items())[:1])
    kinds = [row["kind"] for row in rewritten(table, one) if row["searchable"]]
    assert kinds.count("proposition") == 1
    assert "fragment" in kinds


@given(document=made(), facts=st.lists(st.sampled_from(["Yes.", "a b", "A B.", "c", "日本語"])))
def test_ids_are_unique_and_the_same_again(document: Made, facts: list[str]) -> None:
    table = document.documents()
    written = answers(Chunker(SETTINGS)(table).to_pylist(), *facts)
    rows = rewritten(table, written)
    assert rows == rewritten(table, written)
    assert len({row["chunk_id"] for row in rows}) == len(rows)
    chunks = rows_to_table(rows, Chunker(SETTINGS).gives)
    assert audit(table, chunks, FINGERPRINT) == []


def test_another_fact_has_another_id() -> None:
    table = document().documents()
    chunks = Chunker(SETTINGS)(table).to_pylist()
    ids = [
        {row["chunk_id"] for row in rewritten(table, answers(chunks, text))}
        for text in ("One fact.", "Other fact.")
    ]
    assert ids[0] & ids[1] == {row["chunk_id"] for row in chunks}


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"parent_id": "nobody"}, "what it was rewritten from, nobody, is not before it"),
        ({"end": 3}, "its span is not that of what it was rewritten from"),
        ({"text": "Made up."}, "its id should be"),
        ({"text": " "}, "its text is blank"),
    ],
)
def test_the_audit_finds_a_fact_that_is_not_of_its_chunk(
    changes: dict[str, Any], what: str
) -> None:
    table = document().documents()
    rows = rewritten(table, answers(Chunker(SETTINGS)(table).to_pylist(), "A fact."))
    at = next(i for i, row in enumerate(rows) if row["kind"] == "proposition")
    rows[at] |= changes
    problems = audit(table, rows_to_table(rows, Chunker(SETTINGS).gives), FINGERPRINT)
    assert any(what in problem.what for problem in problems)


def test_the_audit_finds_what_is_searched_beside_its_facts_and_what_has_none() -> None:
    table = document().documents()
    rows = rewritten(table, answers(Chunker(SETTINGS)(table).to_pylist(), "A fact."))
    source = next(row["parent_id"] for row in rows if row["kind"] == "proposition")
    next(row for row in rows if row["chunk_id"] == source)["searchable"] = True
    last = next(row for row in rows if row["role"] == "references")
    last["searchable"] = False
    problems = audit(table, rows_to_table(rows, Chunker(SETTINGS).gives), FINGERPRINT)
    assert {problem.what for problem in problems} == {
        "what it was rewritten from is searched beside it",
        "it is not searched, and nothing is in its place",
    }


def test_the_stage_takes_facts_from_what_was_generated(tmp_path: Path) -> None:
    table = document().documents()
    chunks = Chunker(SETTINGS)(table).to_pylist()
    rows = [
        {"chunk_id": chunk, "doc_id": chunks[0]["doc_id"], "prompt_hash": bytes(16), "text": text}
        for chunk, text in answers(chunks, "A fact.", "a fact").items()
    ]
    rows[-1] |= {"text": None, "error": "it did not answer"}
    KeepGenerated(tmp_path, 1)(rows_to_table(rows, GENERATED))
    stage = Rewriter(SETTINGS, lambda: Generated(part_files(tmp_path, "generated", 0)))
    made = stage(table)
    assert made.schema == stage.gives
    facts = [row for row in made.to_pylist() if row["kind"] == "proposition"]
    assert {row["text"] for row in facts} == {"A fact."}
    assert {row["parent_id"] for row in facts} == {row["chunk_id"] for row in rows[:-1]}
