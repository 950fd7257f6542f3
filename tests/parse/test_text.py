from __future__ import annotations

from rag_cluster.config import Parse
from rag_cluster.parse.text import find_headings, parse


def titles(text: str) -> list[tuple[str, int]]:
    return [(heading.title, heading.level) for heading in find_headings(text)]


def test_underlined_lines() -> None:
    text = "Title\n=====\n\nwords\n\nSection\n-------\nmore\n\n-----\n\nSo\n--------------------\n"
    assert titles(text) == [("Title", 1), ("Section", 2)]
    first = find_headings(text)[0]
    assert text[first.start : first.body] == "Title\n=====\n"


def test_numbered_lines_in_sequence() -> None:
    text = "1. Scope\n\nwords here\n\n1.1 Terms\n\nmore words\n\n2. Method\n\nlast words\n"
    assert titles(text) == [("1. Scope", 1), ("1.1 Terms", 2), ("2. Method", 1)]


def test_a_list_is_no_heading_tree() -> None:
    assert titles("1. Buy milk\n\n2. Buy eggs\n\n3. Go home\n") == []
    assert titles("1. Buy milk\n2. Buy eggs\n") == []
    assert titles("2001 was a year\n\nwords\n\n3 cats\n\nwords\n") == []
    assert titles("1. This is a sentence.\n\nwords\n\n2. And another.\n\nwords\n") == []


def test_chapters() -> None:
    assert titles(
        "CHAPTER I. The start\n\nwords\n\nChapter 2\n\nwords\n\n第三章 終わり\n\n語\n"
    ) == [
        ("CHAPTER I. The start", 1),
        ("Chapter 2", 1),
        ("第三章 終わり", 1),
    ]
    assert titles("words\nChapter 2 is about it\nwords\n\nPart of it\n\nwords") == []


def test_form_feeds_are_pages() -> None:
    parsed = parse(b"one\r\n\f two\fthree\f", Parse())
    assert parsed.text == "one\n\n two\n\nthree\n\n"
    spans = [(page.number, parsed.text[page.start : page.end]) for page in parsed.pages]
    assert spans == [(1, "one\n\n"), (2, " two\n\n"), (3, "three\n\n")]
    assert parse(b"no pages", Parse()).pages == []
