"""PDF: rows of tables, their spans, and the modes `tables` and `layout`."""

from __future__ import annotations

import pytest
from made_pdfs import BOLD, Drawing, prose

from rag_cluster.parse.parsed import Parsed, Span

XS = (60, 300, 340, 440, 480)
ROWS = [
    ("Net sales", "$", "1,200", "$", "1,100"),
    ("Cost of sales", "", "(700)", "", "(650)"),
    ("Gross profit", "$", "500", "$", "450"),
]


def _statement() -> Drawing:
    drawing = Drawing().new_page()
    drawing.line(70, "Statement of Income", x=240, size=14, font=BOLD)
    drawing.row(100, ("2022", "2021"), (340, 480), BOLD)
    drawing.line(114, "Revenue and cost", font=BOLD)
    for i, cells in enumerate(ROWS):
        filled = [(cell, x) for cell, x in zip(cells, XS, strict=True) if cell]
        drawing.row(128 + 14 * i, [c for c, _ in filled], [x for _, x in filled])
    drawing.lines(220, prose(4, 470))
    return drawing


def _table_text(parsed: Parsed, span: Span) -> tuple[str, str]:
    assert span.header_end is not None
    return parsed.text[span.start : span.header_end], parsed.text[span.header_end : span.end]


def test_rows_stand_on_one_line_with_the_currency_at_its_amount() -> None:
    parsed = _statement().parse()
    assert len(parsed.tables) == 1
    header, body = _table_text(parsed, parsed.tables[0])
    assert header == "2022  2021\n"
    assert body == (
        "Revenue and cost\n"
        "Net sales  $ 1,200  $ 1,100\n"
        "Cost of sales  (700)  (650)\n"
        "Gross profit  $ 500  $ 450"
    )


def test_a_bold_label_within_a_table_is_no_heading() -> None:
    assert [h.title for h in _statement().parse().headings] == ["Statement of Income"]


def test_a_label_of_two_lines_keeps_its_values_on_one_line() -> None:
    drawing = Drawing().new_page()
    drawing.row(100, ("Wages", "10", "20"), (60, 340, 480))
    drawing.line(114, "Purchases of property, plant")
    drawing.row(128, ("and equipment", "30", "40"), (60, 340, 480))
    drawing.row(142, ("Taxes", "50", "60"), (60, 340, 480))
    lines = drawing.parse().text.split("\n")
    assert lines[1] == "Purchases of property, plant and equipment  30  40"


def test_two_tables_on_one_page_are_two_spans() -> None:
    drawing = Drawing().new_page()
    for top in (100, 300):
        for i in range(4):
            drawing.row(top + 14 * i, (f"Row {top} {i}", str(i), str(i * 2)), (60, 340, 480))
    drawing.lines(200, prose(4, 470))
    parsed = drawing.parse()
    assert [parsed.text[s.start :].split("\n")[0] for s in parsed.tables] == [
        "Row 100 0  0  0",
        "Row 300 0  0  0",
    ]


def _ruled() -> Drawing:
    drawing = Drawing().new_page()
    drawing.lines(60, prose(2, 470))
    for i, cells in enumerate([("Name", "Size"), ("small | flat", "3"), ("large", "12")]):
        drawing.row(114 + 20 * i, cells, (64, 204))
    for i in range(4):
        drawing.page.draw_line((60, 100 + 20 * i), (300, 100 + 20 * i))
    for x in (60, 200, 300):
        drawing.page.draw_line((x, 100), (x, 160))
    drawing.lines(200, prose(3, 470, start=3))
    return drawing


def test_tables_mode_gives_markdown_where_the_rows_were() -> None:
    parsed = _ruled().parse("tables")
    table = "| Name | Size |\n|---|---|\n| small \\| flat | 3 |\n| large | 12 |"
    before, after = " ".join(prose(2, 470)), " ".join(prose(3, 470, start=3))
    assert parsed.text == f"{before}\n\n{table}\n\n{after}"
    header, body = _table_text(parsed, parsed.tables[0])
    assert header == "| Name | Size |\n|---|---|\n"
    assert header + body == table
    assert parsed.parser.endswith(":tables")


def test_tables_mode_on_a_page_of_prose_reads_like_fast_mode() -> None:
    drawing = Drawing().new_page()
    drawing.lines(100, prose(20, 470))
    assert drawing.parse("tables").text == drawing.parse().text


@pytest.mark.timeout(120)
def test_layout_mode_gives_markdown_with_exact_page_spans() -> None:
    drawing = Drawing().new_page().line(70, "Mills and Markets", size=20, font=BOLD)
    drawing.lines(110, prose(10, 470))
    drawing.new_page().lines(80, prose(10, 470, start=20))
    parsed = drawing.parse("layout")
    assert [h.title for h in parsed.headings] == ["Mills and Markets"]
    heading = parsed.headings[0]
    assert parsed.text[heading.start :].startswith("#")
    assert parsed.text[heading.body :].startswith("The river")
    first, second = parsed.pages
    assert parsed.text[first.end : second.start] == "\n\n"
    assert second.end == len(parsed.text)
    assert parsed.parser.endswith(":layout")
