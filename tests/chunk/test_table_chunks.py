from __future__ import annotations

from typing import Any

from made_documents import Made

from rag_cluster import config
from rag_cluster.chunk.stage import Chunker

HEADER = ["| Year | Sales |", "|---|---|"]  # 5 + 9 tokens by the tokenizer of fake models
ROWS = [f"| {year} | {year} |" for year in range(2000, 2012)]  # 5 tokens each


def chunks(document: Made, size: int = 32, **settings: Any) -> list[dict[str, Any]]:
    tree = {"size": size, "overlap": 0, "min_size": 4} | settings
    built = config.build({"chunk": tree, "embed": {"model": "fake:8"}})
    return Chunker(built)(document.documents()).to_pylist()


def test_a_table_is_split_between_rows_and_repeats_its_header() -> None:
    document = Made().table(HEADER, ROWS[:8])
    parent, *parts = chunks(document)
    assert parent["searchable"] is False
    assert [part["kind"] for part in parts] == ["table"] * 3
    # 14 of 32 tokens are the header's: three rows fit behind it each time.
    assert parts[0]["text"] == "\n".join(HEADER + ROWS[:3])
    assert parts[1]["text"] == "\n".join(ROWS[3:6])
    assert parts[2]["text"] == "\n".join(ROWS[6:8])
    assert [part["header"] for part in parts] == ["", "\n".join(HEADER), "\n".join(HEADER)]


def test_a_last_row_is_not_left_alone() -> None:
    _, first, last = chunks(Made().table(HEADER, ROWS[:4]), min_size=10)
    assert first["text"] == "\n".join(HEADER + ROWS[:2])
    assert last["text"] == "\n".join(ROWS[2:4])


def test_a_table_among_text_is_its_own_chunk() -> None:
    document = Made().heading("S").add("Some words before it.").table(HEADER, ROWS[:2])
    document.add("Some words after it.")
    parent, before, table, after = chunks(document)
    assert parent["text"] == document.text.strip()
    assert before["text"] == "S\nSome words before it."
    assert (table["kind"], table["text"]) == ("table", "\n".join(HEADER + ROWS[:2]))
    assert (after["kind"], after["text"]) == ("fragment", "Some words after it.")
    assert table["section_path"] == "S"


def test_a_caption_and_a_unit_go_with_their_table() -> None:
    document = Made().add("Table 3").table(HEADER, ROWS[:2]).add("in millions")
    (only,) = chunks(document)
    assert (only["kind"], only["parent_id"]) == ("table", None)
    assert only["text"] == document.text.strip()


def test_a_heading_is_no_chunk_beside_its_table() -> None:
    document = Made().heading("A heading of some seven words here").table(HEADER, ROWS[:1])
    (only,) = chunks(document)
    assert only["text"] == document.text.strip()


def test_a_row_larger_than_the_size_is_kept_whole() -> None:
    wide = "| " + " ".join(["word"] * 60) + " | 1 |"
    document = Made().table(HEADER, [ROWS[0], wide, ROWS[1]])
    rows = [row for row in chunks(document) if row["searchable"]]
    assert [row["text"] for row in rows] == ["\n".join([*HEADER, ROWS[0]]), wide, ROWS[1]]


def test_a_page_laid_out_as_a_table_is_cut_as_text() -> None:
    page = "| " + " ".join(["word"] * 600) + " |"
    rows = [row for row in chunks(Made().table([], [page])) if row["searchable"]]
    assert {row["kind"] for row in rows} == {"table"}
    assert max(row["tokens"] for row in rows) <= 32


def test_a_header_larger_than_half_the_size_is_repeated_up_to_there() -> None:
    header = ["| " + " | ".join(f"column {number}" for number in range(6)) + " |"]  # 19 tokens
    document = Made().table(header, ROWS[:6])
    parts = [row for row in chunks(document) if row["header"]]
    assert {part["header"] for part in parts} == {
        "| column 0 | column 1 | column 2 | column 3 | column 4 |"
    }
    assert all(part["tokens"] + 16 <= 32 for part in parts)


def test_tables_are_their_own_chunks_for_sentences_and_recursive_too() -> None:
    document = Made().add("Some words before it.").table(HEADER, ROWS[:2])
    for strategy in ("sentence", "recursive"):
        rows = chunks(document, strategy=strategy)
        assert [(row["kind"], row["parent_id"]) for row in rows] == [
            ("fragment", None),
            ("table", None),
        ]
    (window,) = chunks(document, size=64, strategy="fixed")
    assert window["kind"] == "fragment"


def test_a_table_that_reaches_over_a_heading_is_cut_there() -> None:
    document = Made().table(HEADER, ROWS[:2]).heading("Next").add("Text behind.")
    document.tables[0]["end"] = len(document.text)
    rows = chunks(document)
    assert [row["text"] for row in rows] == ["\n".join(HEADER + ROWS[:2]), "Next\nText behind."]
