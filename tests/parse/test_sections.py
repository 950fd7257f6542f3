from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.parse.parsed import Heading
from rag_cluster.parse.sections import build_sections, title_role


def heading(text: str, title: str, level: int) -> Heading:
    start = text.index(title)
    return Heading(title, level, start, start + len(title) + 1)


def test_sections_partition_the_text_and_know_parent_and_path() -> None:
    text = "before\nPart\nChapter\none\nScope\ntwo\nAnother\nthree"
    levels = {"Part": 1, "Chapter": 2, "Scope": 3, "Another": 2}
    sections = build_sections(text, [heading(text, t, n) for t, n in levels.items()], "Title")
    assert [s["title"] for s in sections] == ["", "Part", "Chapter", "Scope", "Another"]
    assert [s["level"] for s in sections] == [0, 1, 2, 3, 2]
    assert [s["parent"] for s in sections] == [-1, -1, 1, 2, 1]
    assert sections[3]["path"] == "Part > Chapter > Scope"
    assert [text[s["body"] : s["end"]] for s in sections] == [
        "before\n",
        "",
        "one\n",
        "two\n",
        "three",
    ]


def test_a_top_heading_that_is_the_title_is_left_out_of_paths_under_it() -> None:
    text = "My Paper\nScope\nbody"
    marks = [heading(text, "My Paper", 1), heading(text, "Scope", 2)]
    assert [s["path"] for s in build_sections(text, marks, "my  paper")] == ["My Paper", "Scope"]
    assert build_sections(text, marks, "x")[1]["path"] == "My Paper > Scope"


def test_space_before_the_first_heading_is_no_section() -> None:
    sections = build_sections("\n\nA\nbody", [Heading("A", 1, 2, 4)], "")
    assert [(s["title"], s["start"], s["body"], s["end"]) for s in sections] == [("A", 0, 4, 8)]


def test_no_heading_is_one_section_and_no_text_is_none() -> None:
    assert [(s["level"], s["end"]) for s in build_sections("text", [], "t")] == [(0, 4)]
    assert build_sections("", [], "t") == []


@given(
    st.text(alphabet="ab \n", min_size=1, max_size=60),
    st.lists(st.tuples(st.integers(-3, 70), st.integers(0, 7), st.integers(-2, 5)), max_size=8),
)
def test_any_headings_give_a_partition(text: str, marks: list[tuple[int, int, int]]) -> None:
    headings = [Heading("t", level, start, start + more) for start, level, more in marks]
    sections = build_sections(text, headings, "")
    assert sections[0]["start"] == 0
    assert sections[-1]["end"] == len(text)
    for place, section in enumerate(sections):
        assert section["start"] <= section["body"] <= section["end"]
        assert section["start"] < section["end"]
        assert section["parent"] < place
        if place:
            assert sections[place - 1]["end"] == section["start"]
        if section["parent"] >= 0:
            assert sections[section["parent"]]["level"] < section["level"]


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("References", "references"),
        ("7. REFERENCES:", "references"),
        ("VII. Bibliography", "references"),
        ("Literaturverzeichnis", "references"),
        ("参考文献", "references"),
        ("Table of Contents", "contents"),
        ("Inhaltsverzeichnis", "contents"),
        ("Subject index", "index"),
        ("Reference implementation", "body"),
        ("Contents of the package", "body"),
    ],
)
def test_roles_by_title(title: str, role: str) -> None:
    assert title_role(title) == role


def roles(text: str, **levels: int) -> list[str]:
    marks = [heading(text, t.replace("_", " "), n) for t, n in levels.items()]
    return [s["role"] for s in build_sections(text, marks, "")]


def test_contents_and_index_need_a_body_that_looks_like_one() -> None:
    listed = "Contents\nIntroduction ..... 1\nMethod ..... 5\nResults\t12\n"
    assert roles(listed, Contents=1) == ["contents"]
    prose = "Contents\nThe box holds a cable and a charger, which should be kept dry.\nKeep it.\n"
    assert roles(prose, Contents=1) == ["body"]
    by_title = "Contents\n- Alpha\n- Beta\n\nAlpha\nx is it.\nBeta\ny"
    marks = [
        Heading("Contents", 1, 0, 9),
        Heading("Alpha", 1, by_title.rindex("Alpha"), by_title.rindex("x")),
        Heading("Beta", 1, by_title.rindex("Beta"), by_title.rindex("y")),
    ]
    assert [s["role"] for s in build_sections(by_title, marks, "")] == ["contents", "body", "body"]
    pages = "Index\nalpha, 3, 17\nbeta, 12-14\ngamma, 8\n"
    assert roles(pages, Index=1) == ["index"]
    fund = (
        "Index\nThe index holds five hundred companies.\nIt is weighted by value.\nThat is all.\n"
    )
    assert roles(fund, Index=1) == ["body"]


def test_children_inherit_a_role_but_an_appendix_does_not() -> None:
    text = "References\nBooks\nKnuth 1968\nAppendix A\nproofs"
    assert roles(text, References=1, Books=2, Appendix_A=2) == ["references", "references", "body"]
