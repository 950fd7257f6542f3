"""PDF: pages, paragraphs, hyphens, running lines, metadata and the reasons of failure."""

from __future__ import annotations

import pymupdf
import pytest
from made_pdfs import BOLD, Drawing, page_text, prose

from rag_cluster.config import Parse
from rag_cluster.parse import pdf
from rag_cluster.parse.parsed import ParseError


def _reason(data: bytes) -> str:
    with pytest.raises(ParseError) as caught:
        pdf.parse(data, Parse())
    return caught.value.reason


def test_lines_of_a_paragraph_join_and_paragraphs_part() -> None:
    first, second = prose(3, 470), prose(3, 470, start=7)
    drawing = Drawing().new_page()
    y = drawing.lines(80, [*first[:2], first[2] + "."])
    drawing.lines(y + 12, second)
    assert drawing.parse().text == f"{' '.join(first)}.\n\n{' '.join(second)}"


def test_one_page_keeps_every_line() -> None:
    drawing = Drawing().new_page().line(30, "Header of nothing").line(400, "Only line.")
    drawing.line(820, "1")
    assert drawing.parse().text.split() == ["Header", "of", "nothing", "Only", "line.", "1"]


def test_running_lines_and_page_numbers_go_and_repeated_body_lines_stay() -> None:
    drawing = Drawing()
    for number in range(1, 7):
        drawing.new_page().line(30, "Annual Report of the Mill").line(44, "Confidential", x=400)
        drawing.lines(100, prose(8, 470, start=number * 11))
        drawing.line(420, "This notice stands on every page.")
        drawing.lines(500, prose(4, 470, start=number * 5))
        drawing.line(815, f"Page {number} of 6", x=280)
    parsed = drawing.parse()
    assert "Annual Report" not in parsed.text
    assert "Confidential" not in parsed.text
    assert "Page 3" not in parsed.text
    assert parsed.text.count("This notice stands on every page.") == 6
    for number in range(1, 7):
        assert prose(8, 470, start=number * 11)[0] in page_text(parsed, number)


def test_headers_that_change_with_the_chapter_and_roman_numbers_go() -> None:
    drawing = Drawing()
    numerals = ["i", "ii", "iii", "iv", "v", "vi", "vii", "viii"]
    for index, numeral in enumerate(numerals):
        chapter = "On Water" if index < 4 else "On Grain"
        drawing.new_page().line(30, chapter, x=400)
        drawing.lines(100, prose(10, 470, start=index * 13))
        drawing.line(820, numeral, x=290)
    text = drawing.parse().text
    assert "On Water" not in text
    assert "On Grain" not in text
    assert not set(numerals) & set(text.split())


def test_headings_and_text_that_count_with_the_pages_are_content() -> None:
    drawing = Drawing()
    for number in range(1, 8):
        drawing.new_page().line(30, f"The Mill Book - {number}")
        drawing.line(90, f"Chapter {number}", size=16, font=BOLD)
        drawing.line(110, f"This is the text of page {number}.")
        drawing.line(740, f"The last words of page {number} stand here.")
        drawing.line(820, f"- {number} -", x=290)
    parsed = drawing.parse()
    for number in range(1, 8):
        assert page_text(parsed, number) == (
            f"Chapter {number}\n\nThis is the text of page {number}.\n\n"
            f"The last words of page {number} stand here."
        )
    assert [h.title for h in parsed.headings] == [f"Chapter {n}" for n in range(1, 8)]


def test_a_footer_that_moves_with_the_text_goes() -> None:
    drawing = Drawing()
    for number in range(1, 6):
        y = drawing.new_page().lines(90, prose(4 + 3 * number, 470, start=number))
        drawing.line(y + 40, str(number + 16), x=290)
    text = drawing.parse().text
    assert not any(str(number + 16) in text for number in range(1, 6))


def test_numbers_that_do_not_count_with_the_pages_are_content() -> None:
    drawing = Drawing()
    for number in (1007, 1003, 1011, 1002):
        drawing.new_page().line(40, f"Invoice {number}").lines(100, prose(5, 470, start=number))
    text = drawing.parse().text
    assert all(f"Invoice {number}" in text for number in (1007, 1003, 1011, 1002))


def test_a_table_header_that_repeats_on_each_page_stays() -> None:
    drawing = Drawing()
    xs = (60, 250, 400)
    for number in range(4):
        drawing.new_page().line(30, "Price List")
        drawing.row(70, ("Article", "Quantity", "Price"), xs, BOLD)
        for i in range(10):
            drawing.row(84 + 14 * i, (f"Part {number}{i}", str(i + 2), f"{i}.50"), xs)
    parsed = drawing.parse()
    assert "Price List" not in parsed.text
    for number in range(1, 5):
        assert page_text(parsed, number).startswith("Article  Quantity  Price\nPart")


def test_hyphens_at_line_ends() -> None:
    drawing = Drawing().new_page()
    wide = " and so the plain line runs on to the very edge of the text as lines of prose will do"
    drawing.lines(
        80,
        [
            "A long-term plan" + wide[:72] + " exam-",
            "ple of joined words" + wide[:70] + " long-",
            "term plans of the" + wide[:76] + " pre-",
            "and postwar years" + wide[:76] + " self-",
            "made men of the Anglo" + wide[:60] + " North-",
            "South axis.",
        ],
    )
    text = drawing.parse().text
    assert " example of joined words" in text
    assert " long-term plans of the" in text
    assert " pre- and postwar years" in text
    assert " self-made men" in text
    assert " North-South axis." in text
    assert "\n" not in text


def test_a_paragraph_runs_on_over_the_page_end_with_exact_page_spans() -> None:
    drawing = Drawing().new_page()
    lines = prose(50, 470)
    drawing.lines(60, [*lines[:49], lines[49] + " water-"])
    drawing.new_page().lines(60, ["wheels turned all day.", "Nothing else happened."])
    parsed = drawing.parse()
    assert page_text(parsed, 1).endswith(" water")
    assert page_text(parsed, 2).startswith("wheels turned all day.")
    assert parsed.text[parsed.pages[0].end : parsed.pages[1].start] == ""


def test_items_of_a_list_stand_on_their_own_lines() -> None:
    drawing = Drawing().new_page()
    drawing.lines(80, ["Bring:"])
    for i, item in enumerate(["salt and cloth", "copper tools", "two mules"]):
        drawing.row(93 + 13 * i, ("*", item), (70, 84))
    assert drawing.parse().text == "Bring:\n* salt and cloth\n* copper tools\n* two mules"


def test_text_of_a_turned_page_reads_upright() -> None:
    drawing = Drawing().new_page()
    for i, line in enumerate(prose(4, 600)):
        drawing.page.insert_text((100 + 14 * i, 780), line, fontsize=10, rotate=90)
    assert drawing.parse().text == " ".join(prose(4, 600))


def test_ligatures_and_control_characters_are_plain_text() -> None:
    drawing = Drawing().new_page().line(80, "an oﬃce of the ﬁrst ﬂoor", font=BOLD)
    drawing.line(120, "tab\x07bell")
    text = drawing.parse().text
    assert not any(ord(c) < 32 and c != "\n" for c in text)


def test_metadata_that_says_something_is_taken() -> None:
    drawing = Drawing().new_page().line(80, "A line of text.")
    drawing.document.set_metadata(
        {
            "title": "Mills of the  Upper Valley",
            "author": "Ada Byron",
            "creationDate": "D:20230105161720-05'00'",
            "keywords": "mill, water",
        }
    )
    parsed = drawing.parse()
    assert (parsed.title, parsed.author, parsed.date) == (
        "Mills of the Upper Valley",
        "Ada Byron",
        "2023-01-05",
    )
    assert parsed.metadata["keywords"] == "mill, water"
    assert parsed.parser.endswith(":fast")


def test_pages_without_text_have_empty_spans() -> None:
    drawing = Drawing().new_page().line(80, "First page of three.").new_page()
    drawing.new_page().line(80, "Third page of three.")
    parsed = drawing.parse()
    assert [(p.number, parsed.text[p.start : p.end]) for p in parsed.pages] == [
        (1, "First page of three."),
        (2, ""),
        (3, "Third page of three."),
    ]


def test_a_password_is_a_reason_and_an_empty_one_opens() -> None:
    drawing = Drawing().new_page().line(80, "A secret line of text.")
    options = {"encryption": pymupdf.PDF_ENCRYPT_AES_256, "owner_pw": "owner"}
    assert _reason(drawing.bytes(**options, user_pw="secret")) == "encrypted"
    opened = pdf.parse(drawing.bytes(**options, user_pw=""), Parse())
    assert opened.text == "A secret line of text."


def test_damaged_files() -> None:
    no_pages = (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
        b"2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\ntrailer<</Root 1 0 R>>"
    )
    for data in (b"", b"%PDF-1.7\nnothing of a PDF follows", no_pages):
        assert _reason(data) == "damaged"


def test_a_truncated_file_gives_what_is_left_or_a_reason() -> None:
    drawing = Drawing()
    for number in range(20):
        drawing.new_page().lines(80, prose(20, 470, start=number))
    data = drawing.bytes()
    reasons = set()
    for share in (0.2, 0.5, 0.9):
        try:
            assert pdf.parse(data[: int(len(data) * share)], Parse()).pages
        except ParseError as error:
            reasons.add(error.reason)
    assert reasons <= {"damaged", "empty"}


def test_images_of_text_need_ocr_and_blank_pages_are_empty() -> None:
    scanned = Drawing().new_page()
    pixels = pymupdf.Pixmap(pymupdf.csGRAY, pymupdf.IRect(0, 0, 60, 80), False)
    pixels.clear_with(200)
    scanned.page.insert_image(scanned.page.rect, pixmap=pixels)
    assert _reason(scanned.bytes()) == "no text layer: needs OCR"
    scanned.line(820, "stamp 0001")
    assert _reason(scanned.bytes()) == "no text layer: needs OCR"
    assert _reason(Drawing().new_page().new_page().bytes()) == "empty"


def test_an_image_beside_text_is_no_scan() -> None:
    drawing = Drawing().new_page()
    pixels = pymupdf.Pixmap(pymupdf.csGRAY, pymupdf.IRect(0, 0, 60, 80), False)
    pixels.clear_with(200)
    drawing.page.insert_image(drawing.page.rect, pixmap=pixels)
    drawing.lines(80, prose(3, 470))
    assert drawing.parse().text == " ".join(prose(3, 470))
