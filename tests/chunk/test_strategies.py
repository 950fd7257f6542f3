from __future__ import annotations

from typing import Any

from made_documents import Made

from rag_cluster import config
from rag_cluster.chunk.stage import Chunker

# The tokenizer of fake models counts words and signs, which a reader can check.
SENTENCE = "Alpha beta gamma delta epsilon zeta eta theta iota."  # 10 tokens


def chunks(document: Made, **settings: Any) -> list[dict[str, Any]]:
    defaults = {"size": 32, "overlap": 0, "min_size": 4}
    tree = config.build({"chunk": defaults | settings, "embed": {"model": "fake:8"}})
    return Chunker(tree)(document.documents()).to_pylist()


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return [row["text"] for row in rows]


def test_small_sections_are_one_chunk_each() -> None:
    document = Made().heading("One").add("First text.").heading("Two").add("Second text.")
    rows = chunks(document)
    assert texts(rows) == ["One\nFirst text.", "Two\nSecond text."]
    assert [row["kind"] for row in rows] == ["section", "section"]
    assert [row["section_path"] for row in rows] == ["One", "Two"]
    assert [row["ordinal"] for row in rows] == [0, 1]
    assert all(row["searchable"] and row["parent_id"] is None for row in rows)


def test_a_large_section_is_a_parent_and_its_fragments() -> None:
    paragraph = f"{SENTENCE} {SENTENCE}"
    document = Made().heading("Large").add(paragraph).add(paragraph).add(paragraph)
    parent, *parts = chunks(document)
    assert (parent["kind"], parent["searchable"], parent["tokens"]) == ("section", False, 61)
    assert parent["text"] == document.text.strip()
    assert texts(parts) == [f"Large\n{paragraph}", paragraph, paragraph]
    assert {part["parent_id"] for part in parts} == {parent["chunk_id"]}
    assert {part["kind"] for part in parts} == {"fragment"}
    assert [part["ordinal"] for part in parts] == [1, 2, 3]


def test_fragments_share_whole_sentences_where_the_overlap_holds_one() -> None:
    document = Made().add(" ".join([SENTENCE] * 6))
    _, *parts = chunks(document, overlap=12)
    assert texts(parts) == [" ".join([SENTENCE] * 3)] * 2 + [" ".join([SENTENCE] * 2)]
    assert [part["start"] for part in parts] == [0, 2 * 52, 4 * 52]


def test_a_heading_over_other_sections_stands_only_in_their_paths() -> None:
    document = Made().heading("Part").heading("Chapter", 2).add("Text.").heading("End")
    rows = chunks(document)
    assert texts(rows) == ["Chapter\nText.", "End"]
    assert rows[0]["section_path"] == "Part > Chapter"


def test_sections_keep_their_role() -> None:
    document = Made().heading("Body").add("Text.").heading("References", role="references")
    document.add("A. Author.")
    assert [row["role"] for row in chunks(document)] == ["body", "references"]
    (whole,) = chunks(document, strategy="recursive")
    assert (whole["role"], whole["section_path"]) == ("body", "Body")


def test_no_yes_stands_alone() -> None:
    long = "One two three four five six seven eight nine ten eleven twelve thirteen fourteen."
    document = Made().add(f"Yes. {long} {long} Yes.")
    rows = chunks(document, strategy="sentence", size=16)
    assert all(row["tokens"] >= 4 for row in rows)
    assert rows[0]["text"].startswith("Yes. One two")
    assert rows[-1]["text"].endswith("fourteen. Yes.")


def test_sentences_are_kept_whole_and_shared_whole() -> None:
    document = Made().add(" ".join([SENTENCE] * 5))
    rows = chunks(document, strategy="sentence", size=24, overlap=8)
    assert texts(rows) == [f"{SENTENCE} {SENTENCE}", f"{SENTENCE} {SENTENCE}", SENTENCE]


def test_chinese_is_cut_after_its_full_stops() -> None:
    sentence = "今天天气很好我们去公园。"  # 12 characters, 12 tokens
    rows = chunks(Made().add(sentence * 4), strategy="sentence", size=30)
    assert texts(rows) == [sentence * 2] * 2


def test_recursive_prefers_the_end_of_a_paragraph() -> None:
    document = Made().add(f"{SENTENCE} {SENTENCE}").add(f"{SENTENCE} {SENTENCE}")
    assert texts(chunks(document, strategy="recursive")) == [f"{SENTENCE} {SENTENCE}"] * 2


def test_wrapped_lines_are_not_ends_of_sentences() -> None:
    text = "\n".join(
        ["the words of a wrapped paragraph"] * 3 + ["end here. The next one\nis longer."]
    )
    rows = chunks(Made().add(text), strategy="recursive", size=24)
    assert rows[0]["text"].endswith("end here.")


def test_fixed_windows() -> None:
    document = Made().add(" ".join(str(number) for number in range(40)))
    rows = chunks(document, strategy="fixed", size=16, overlap=4)
    spans = [(row["text"].split()[0], row["text"].split()[-1]) for row in rows]
    assert spans == [("0", "15"), ("12", "27"), ("24", "39")]


def test_a_large_formula_is_one_chunk_however_large() -> None:
    formula = "$$ " + " + ".join(["x"] * 40) + " $$"
    document = Made().add(SENTENCE).formula(formula).add(SENTENCE)
    _, before, middle, after = chunks(document)
    assert (before["text"], after["text"]) == (SENTENCE, SENTENCE)
    assert (middle["text"], middle["tokens"]) == (formula, 83)


def test_code_that_fits_is_not_cut() -> None:
    code = "```\n" + "\n\n".join(["a = 1"] * 6) + "\n```"  # 24 tokens
    document = Made().add(SENTENCE).add(code).add(SENTENCE)
    assert code in texts(chunks(document, size=30))


def test_a_page_of_base64_is_not_one_chunk() -> None:
    document = Made().add("A" * 6400)
    tree = config.build({"chunk": {"size": 100}})
    rows = Chunker(tree)(document.documents()).to_pylist()
    assert max(len(row["text"]) for row in rows if row["searchable"]) <= 3200


def test_sentences_of_a_long_paragraph_are_found_across_blocks() -> None:
    sentence = "今天天气很好我们去公园。"
    rows = chunks(Made().add(sentence * 800), strategy="sentence", size=30)
    assert texts(rows) == [sentence * 2] * 400
