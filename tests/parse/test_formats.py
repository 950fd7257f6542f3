from __future__ import annotations

import json

import pytest

from rag_cluster.config import Parse
from rag_cluster.parse.formats import parse_file
from rag_cluster.parse.parsed import Heading
from rag_cluster.parse.titles import choose_title, is_title, title_from_name
from rag_cluster.schema import DOCUMENT, content_hash, document_id, rows_to_table


def test_a_file_is_one_row() -> None:
    data = b"---\nauthor: Ada\nyear: 2020\n---\n# Scope\n\nWords.\n"
    (row,) = parse_file(data, "/data/a_file.md", Parse())
    assert row["doc_id"] == document_id("/data/a_file.md")
    assert (row["status"], row["error"], row["detail"]) == ("ok", None, None)
    assert (row["title"], row["text"]) == ("Scope", "# Scope\n\nWords.\n")
    assert row["media_type"] == "text/markdown"
    assert row["content_hash"] == content_hash(data)
    assert json.loads(row["metadata"]) == {"author": "Ada", "year": 2020}
    assert [section["path"] for section in row["sections"]] == ["Scope"]
    assert row["parser"].startswith("markdown/")
    assert rows_to_table([row], DOCUMENT).num_rows == 1


@pytest.mark.parametrize(
    ("data", "name", "status", "reason"),
    [
        (b"", "a.pdf", "empty", "empty file"),
        (b" \n", "a.txt", "empty", "no text"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "a.md", "failed", "unsupported type"),
        (b"PK\x03\x04 broken", "a.docx", "failed", "damaged"),
        (b"%PDF-1.7\nbroken", "a.pdf", "failed", "damaged"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "a.docx",
            "failed",
            "encrypted",
        ),
    ],
)
def test_what_is_no_text_has_a_reason(data: bytes, name: str, status: str, reason: str) -> None:
    (row,) = parse_file(data, f"/data/{name}", Parse())
    assert (row["status"], row["error"]) == (status, reason)
    assert row["title"] == "a"
    assert rows_to_table([row], DOCUMENT).num_rows == 1


@pytest.mark.parametrize(
    "title",
    [
        "Microsoft Word - final2.doc",
        "untitled",
        "Untitled document 3",
        "Document1",
        "PowerPoint Presentation",
        "Slide 1",
        "report_v3.docx",
        "C:\\temp\\x.tex",
        "https://example.org/x",
        "12/03/2020",
        "ab",
        "0f8a2c4e6b1d3f5a7c9e",
        "",
    ],
)
def test_what_programs_write_is_no_title(title: str) -> None:
    assert not is_title(title)


@pytest.mark.parametrize("title", ["Annual report 2023", "Title IX and sport", "年度报告"])
def test_what_people_write_is_a_title(title: str) -> None:
    assert is_title(title)


def test_the_title_is_the_files_own_then_a_heading_then_its_name() -> None:
    headings = [Heading("Table of contents", 1, 0, 5), Heading("Real  heading", 1, 9, 20)]
    assert choose_title(" Own\ntitle ", headings, "/a/b.pdf") == "Own title"
    assert choose_title("Microsoft Word - x.doc", headings, "/a/b.pdf") == "Real heading"
    assert choose_title(None, [], "/a/2023_annual-reportFinal.pdf") == "2023 annual report Final"
    assert choose_title(None, [Heading("Late", 1, 9000, 9005)], "/a/b c-d.pdf") == "b c-d"
    assert title_from_name("/a/3M_2018_10K.pdf") == "3M 2018 10K"
