"""PDF: headings by outline, numbering and typography, their levels and their places."""

from __future__ import annotations

from made_pdfs import BOLD, Drawing, outline, prose

from rag_cluster.parse.pdf_levels import depth_of


def _section(drawing: Drawing, y: float, title: str, size: float, font: str = BOLD) -> float:
    drawing.line(y, title, size=size, font=font)
    return drawing.lines(y + 20, prose(4, 470, start=int(y))) + 16


def test_sizes_and_weights_rank_the_levels() -> None:
    drawing = Drawing().new_page()
    y = _section(drawing, 80, "Mills and Markets", 20)
    y = _section(drawing, y, "Water", 14)
    y = _section(drawing, y, "Wheels", 10)
    _section(drawing, y, "Grain", 14)
    parsed = drawing.parse()
    assert outline(parsed) == [
        (1, "Mills and Markets"),
        (2, "Water"),
        (3, "Wheels"),
        (2, "Grain"),
    ]
    for heading in parsed.headings:
        assert parsed.text[heading.start : heading.body] == f"{heading.title}\n\n"


def test_numbers_give_the_level() -> None:
    drawing = Drawing().new_page()
    y = _section(drawing, 60, "3 Methods", 14)
    y = _section(drawing, y, "3.2 Sampling", 12)
    y = _section(drawing, y, "3.2.1 Scope", 10)
    y = _section(drawing, y, "3.2.2 Limits", 10, font="helv")
    _section(drawing, y, "4 Results", 14)
    assert outline(drawing.parse()) == [
        (1, "3 Methods"),
        (2, "3.2 Sampling"),
        (3, "3.2.1 Scope"),
        (3, "3.2.2 Limits"),
        (1, "4 Results"),
    ]


def test_paragraphs_numbered_flat_are_no_sections() -> None:
    drawing = Drawing().new_page().line(60, "Rules of the Mill", size=16, font=BOLD)
    y = 100.0
    for number in range(1, 9):
        first, *rest = prose(3, 470, start=number * 9)
        y = drawing.lines(y, [f"{number}. {first[:-8]}", *rest[:1], "and so it ends."]) + 10
    assert outline(drawing.parse()) == [(1, "Rules of the Mill")]


def test_a_short_numbered_list_is_no_run_of_headings() -> None:
    drawing = Drawing().new_page().line(60, "Tools", size=16, font=BOLD)
    drawing.lines(100, prose(3, 470))
    drawing.lines(160, ["1. Hammer", "2. Chisel", "3. Level", "4. Rope"])
    drawing.lines(240, prose(3, 470))
    parsed = drawing.parse()
    assert outline(parsed) == [(1, "Tools")]
    assert "1. Hammer\n2. Chisel\n3. Level\n4. Rope" in parsed.text


def test_parts_and_items_stand_above_other_styles() -> None:
    drawing = Drawing().new_page()
    y = _section(drawing, 60, "PART I", 10)
    y = _section(drawing, y, "Item 1. Business", 10)
    y = _section(drawing, y, "COMPETITION", 10)
    y = _section(drawing, y, "Item 1A. Risk Factors", 10)
    y = _section(drawing, y, "PART II", 10)
    _section(drawing, y, "Item 5. Market for Shares", 10)
    assert outline(drawing.parse()) == [
        (1, "PART I"),
        (2, "Item 1. Business"),
        (3, "COMPETITION"),
        (2, "Item 1A. Risk Factors"),
        (1, "PART II"),
        (2, "Item 5. Market for Shares"),
    ]


def test_a_title_over_two_lines_is_one_heading() -> None:
    drawing = Drawing().new_page()
    drawing.line(80, "A History of Water Mills and of the Markets", size=20, font=BOLD)
    drawing.line(104, "along the Upper Valley", size=20, font=BOLD)
    drawing.lines(140, prose(6, 470))
    parsed = drawing.parse()
    assert outline(parsed) == [
        (1, "A History of Water Mills and of the Markets along the Upper Valley")
    ]


def test_a_name_in_capitals_below_a_statement_title_joins_it() -> None:
    drawing = Drawing().new_page()
    y = _section(drawing, 60, "Item 8. Financial Statements", 10)
    y = _section(drawing, y, "Item 9. Controls", 10)
    drawing.line(y + 10, "Consolidated Statements of Earnings", x=210, font=BOLD)
    drawing.line(y + 22, "THE MILL COMPANY AND SUBSIDIARIES", x=200)
    for i in range(6):
        drawing.row(y + 50 + 14 * i, (f"Row {i}", str(i), str(2 * i)), (60, 340, 480))
    titles = [title for _, title in outline(drawing.parse())]
    assert titles[-1] == "Consolidated Statements of Earnings THE MILL COMPANY AND SUBSIDIARIES"


def test_a_bold_paragraph_and_a_bold_word_are_no_headings() -> None:
    drawing = Drawing().new_page()
    y = drawing.lines(80, prose(4, 470))
    for line in prose(7, 420, start=11):
        drawing.line(y + 10, line, font=BOLD)
        y += 13
    drawing.row(y + 30, ("Note:", "the river is cold in spring and nobody swims."), (60, 92), BOLD)
    assert outline(drawing.parse()) == []


def test_lines_of_a_contents_page_are_no_headings() -> None:
    drawing = Drawing().new_page().line(60, "Contents", size=14, font=BOLD)
    titles = ["Water", "Wheels", "Grain", "Markets", "Tolls", "Floods"]
    for i, title in enumerate(titles):
        drawing.line(90 + 16 * i, f"{i + 1} {title}", font=BOLD)
        drawing.line(90 + 16 * i, str(i + 2), x=500)
    for i, title in enumerate(titles):
        _section(drawing.new_page(), 80, f"{i + 1} {title}", 14)
    assert outline(drawing.parse()) == [
        (1, "Contents"),
        *[(1, f"{i + 1} {title}") for i, title in enumerate(titles)],
    ]


def _plain(titles: list[str]) -> Drawing:
    """A page each, titles in the body's own type: typography would find none of them."""
    drawing = Drawing()
    for i, title in enumerate(titles):
        drawing.new_page().line(80, title)
        drawing.lines(110, prose(6, 470, start=i))
    return drawing


def test_the_outline_wins_where_its_titles_stand_on_the_pages() -> None:
    drawing = _plain(["Water", "Wheels of Wood", "Grain"])
    drawing.document.set_toc([[1, "Water", 1], [2, "Wheels of  wood", 2], [1, "Grain", 3]])
    parsed = drawing.parse()
    assert outline(parsed) == [(1, "Water"), (2, "Wheels of wood"), (1, "Grain")]
    assert parsed.text[parsed.headings[1].start :].startswith("Wheels of Wood\n\n")


def test_an_outline_that_does_not_match_falls_back_to_typography() -> None:
    drawing = Drawing()
    for i in range(3):
        _section(drawing.new_page(), 80, f"Chapter {i + 1}: On Mills", 16)
    drawing.document.set_toc([[1, f"slide{i}.png", i + 1] for i in range(3)])
    assert [title for _, title in outline(drawing.parse())] == [
        f"Chapter {i + 1}: On Mills" for i in range(3)
    ]


def test_depth_of_a_number() -> None:
    assert depth_of("3.2.1 Scope") == 3
    assert depth_of("3. Scope") == 1
    assert depth_of("A.1 Proofs") == 2
    assert depth_of("3.5 %") is None
    assert depth_of("Scope") is None
    assert depth_of("2019") is None
