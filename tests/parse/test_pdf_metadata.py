"""Which titles, authors and dates of a PDF's metadata are worth keeping."""

from __future__ import annotations

import pytest

from rag_cluster.parse.pdf_metadata import iso_date, useful_author, useful_title


@pytest.mark.parametrize(
    "title",
    [
        "",
        "   ",
        "Microsoft Word - final2.doc",
        "Microsoft PowerPoint - Board deck",
        "untitled",
        "Untitled-1",
        "Document1",
        "report_final_v2.docx",
        "C:\\Users\\me\\thesis.tex",
        "/tmp/print.ps",
        "https://example.org/a",
        "0000764478-17-000008",
        "12",
        "ms1234",
        "PowerPoint Presentation",
        "\ufffd\ufffdabc def",
        "a3f9c2d1-77aa-4b7e-9c1d-000000000000",
    ],
)
def test_placeholders_file_names_and_ids_are_no_titles(title: str) -> None:
    assert useful_title(title) is None


@pytest.mark.parametrize(
    "title",
    [
        "The Digital Millennium Copyright Act of 1998",
        "10-K - 02/07/2019 - 3M Company",
        "Faust",
        "中期报告",
        "Test of Time: a study",
    ],
)
def test_titles_stay(title: str) -> None:
    assert useful_title(title) == title


def test_authors() -> None:
    assert useful_author("Ada Byron") == "Ada Byron"
    assert all(useful_author(a) is None for a in (None, "", "Administrator", "anonymous", "user1"))


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("D:20230105161720-05'00'", "2023-01-05"),
        ("D:20230815234220Z", "2023-08-15"),
        ("D:2019", "2019"),
        ("D:201905", "2019-05"),
        ("2021-10-12T08:00:00", "2021-10-12"),
        ("D:20231340", None),
        ("yesterday", None),
        ("", None),
        (None, None),
    ],
)
def test_dates(raw: str | None, expected: str | None) -> None:
    assert iso_date(raw) == expected
