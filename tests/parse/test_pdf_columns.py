"""PDF: columns are read one after the other, tables row by row."""

from __future__ import annotations

from made_pdfs import BOLD, Drawing, page_text, prose

from rag_cluster.parse.pdf_columns import find_gutter, usual_gutter


def _two_columns(drawing: Drawing, y: float, count: int, start: int = 0) -> tuple[str, str]:
    left, right = prose(count, 220, start=start), prose(count, 220, start=start + 40)
    drawing.lines(y, left, x=60)
    drawing.lines(y, right, x=315)
    return " ".join(left), " ".join(right)


def test_two_columns_below_a_full_width_title_and_abstract() -> None:
    drawing = Drawing().new_page().line(70, "Mills and Markets", x=220, size=18, font=BOLD)
    abstract = prose(4, 470, start=90)
    drawing.lines(110, [*abstract[:3], abstract[3] + "."])
    left, right = _two_columns(drawing, 200, 30)
    text = drawing.parse().text
    assert text.startswith(f"Mills and Markets\n\n{' '.join(abstract)}.")
    assert left in text
    assert right in text
    assert text.index(left) < text.index(right)


def test_columns_with_shifted_baselines() -> None:
    drawing = Drawing().new_page()
    left, right = prose(30, 220), prose(28, 220, start=40)
    drawing.lines(100, left, x=60)
    drawing.lines(106.5, right, x=315)
    text = drawing.parse().text
    assert " ".join(left) in text
    assert " ".join(right) in text


def test_three_columns() -> None:
    drawing = Drawing().new_page()
    columns = [prose(30, 145, start=start) for start in (0, 40, 80)]
    for column, x in zip(columns, (50, 215, 380), strict=True):
        drawing.lines(100, column, x=x)
    text = drawing.parse().text
    places = [text.index(" ".join(column)[:400]) for column in columns]
    assert places == sorted(places)


def test_a_table_within_a_column_does_not_break_the_columns() -> None:
    drawing = Drawing().new_page()
    for i in range(6):
        drawing.row(100 + 14 * i, (f"Mill {i}", str(12 + i), f"{i}.5"), (60, 150, 230))
    drawing.lines(200, left := prose(24, 220), x=60)
    drawing.lines(100, right := prose(31, 220, start=40), x=315)
    text = drawing.parse().text
    assert "Mill 0  12  0.5\nMill 1  13  1.5" in text
    assert " ".join(left) in text
    assert " ".join(right) in text


def test_the_last_page_of_a_document_in_columns() -> None:
    drawing = Drawing()
    for number in range(3):
        _two_columns(drawing.new_page(), 80, 50, start=number * 17)
    drawing.new_page()
    left = prose(20, 220, start=5)
    drawing.lines(80, left, x=60)
    drawing.lines(80, ["Thanks to all", "mill owners."], x=315)
    assert page_text(drawing.parse(), 4).startswith(" ".join(left[:20])[:300])


def test_a_table_of_words_and_numbers_is_read_by_rows() -> None:
    drawing = Drawing().new_page()
    xs = (60, 320, 460)
    drawing.row(80, ("Source of income", "This year", "Last year"), xs, BOLD)
    for i in range(20):
        name = f"Income from the mills of district {i}"
        drawing.row(95 + 14 * i, (name, f"{i},120", f"{i},090"), xs)
    lines = drawing.parse().text.split("\n")
    assert lines[0] == "Source of income  This year  Last year"
    assert lines[1] == "Income from the mills of district 0  0,120  0,090"
    assert len(lines) == 21


def test_a_table_of_two_columns_of_short_texts_is_read_by_rows() -> None:
    drawing = Drawing().new_page()
    for i in range(12):
        drawing.row(95 + 14 * i, (f"Parameter {i}", f"Value of kind {i}"), (60, 320))
    assert drawing.parse().text.split("\n")[3] == "Parameter 3  Value of kind 3"


def test_usual_gutter_needs_two_fifths_of_the_pages() -> None:
    assert usual_gutter([300.0, 302.0, 299.0, None]) == 300.0
    assert usual_gutter([300.0, None, None, None]) is None
    assert usual_gutter([300.0, 200.0, 100.0, 400.0]) is None
    assert find_gutter([]) is None
