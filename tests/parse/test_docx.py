from __future__ import annotations

import io
import zipfile
from datetime import datetime
from typing import Any

import docx
import pytest
from docx.oxml import parse_xml

from rag_cluster.config import Parse
from rag_cluster.parse.docx import parse
from rag_cluster.parse.parsed import ParseError

SPACES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
)


def data_of(document: Any) -> bytes:
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def text_of(*paragraphs: str) -> str:
    document = docx.Document()
    for xml in paragraphs:
        document.element.body.insert(0, parse_xml(xml.replace("<w:p>", f"<w:p {SPACES}>", 1)))
    return parse(data_of(document), Parse()).text


def test_a_document_in_the_order_of_its_body() -> None:
    document = docx.Document()
    document.add_heading("The report", 0)
    document.add_heading("Scope", 1)
    document.add_paragraph("First words.\nSecond line.")
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip(table._cells, ("Year", "Sum", "2020", "1|2"), strict=True):
        cell.text = text
    document.add_heading("Details", 2)
    document.add_paragraph("one", style="List Number")
    document.add_paragraph("two", style="List Number")
    document.add_paragraph("dot", style="List Bullet")
    document.core_properties.title = "Own title"
    document.core_properties.author = "Ada"
    document.core_properties.created = datetime(2024, 5, 6)
    parsed = parse(data_of(document), Parse())
    assert parsed.text == (
        "# The report\n\n# Scope\n\nFirst words.\nSecond line.\n\n"
        "| Year | Sum |\n|---|---|\n| 2020 | 1\\|2 |\n\n## Details\n\n1. one\n2. two\n- dot"
    )
    assert [(h.title, h.level) for h in parsed.headings] == [
        ("The report", 1),
        ("Scope", 1),
        ("Details", 2),
    ]
    assert parsed.text[parsed.headings[1].body :].startswith("\nFirst")
    (table_span,) = parsed.tables
    assert parsed.text[table_span.start : table_span.header_end] == "| Year | Sum |\n|---|---|\n"
    assert (parsed.title, parsed.author, parsed.date) == ("Own title", "Ada", "2024-05-06")


def test_a_localised_style_and_an_outline_level_make_headings() -> None:
    document = docx.Document()
    document.styles["Heading 2"].name = "Überschrift 2"
    document.add_paragraph("Umfang", style="Überschrift 2")
    paragraph = document.add_paragraph("By outline")
    paragraph._p.get_or_add_pPr().append(parse_xml(f'<w:outlineLvl {SPACES} w:val="2"/>'))
    headings = parse(data_of(document), Parse()).headings
    assert [(h.title, h.level) for h in headings] == [("Umfang", 2), ("By outline", 3)]


def test_merged_cells_stand_once_and_a_frame_is_no_table() -> None:
    document = docx.Document()
    table = document.add_table(rows=2, cols=3)
    for number, cell in enumerate(table._cells):
        cell.text = str(number)
    table.cell(0, 1).merge(table.cell(0, 2)).text = "wide"
    table.cell(0, 0).merge(table.cell(1, 0)).text = "tall"
    frame = document.add_table(rows=1, cols=1)
    frame.cell(0, 0).text = "framed"
    parsed = parse(data_of(document), Parse())
    assert parsed.text == "| tall | wide |  |\n|---|---|---|\n|  | 4 | 5 |\n\nframed"


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def math(part: str, text: str) -> str:
    return f"<m:{part}><m:r><m:t>{text}</m:t></m:r></m:{part}>"


FRACTION = f"<m:f>{math('num', 'a')}{math('den', 'b')}</m:f>"
POWER = f"<m:sSup>{math('e', 'x')}{math('sup', '2')}</m:sSup>"
DELETED = "<w:del><w:r><w:delText>old</w:delText></w:r></w:del>"


@pytest.mark.parametrize(
    ("paragraph", "text"),
    [
        (f"<w:p><w:ins>{run('new')}</w:ins>{DELETED}</w:p>", "new"),
        (f"<w:p><w:hyperlink>{run('a')}</w:hyperlink><w:r><w:noBreakHyphen/></w:r></w:p>", "a-"),
        (f"<w:p><w:sdt><w:sdtContent>{run('box')}</w:sdtContent></w:sdt></w:p>", "box"),
        (f"<w:p><m:oMath>{FRACTION}{POWER}</m:oMath></w:p>", "$\\frac{a}{b}x^{2}$"),
        ("<w:p><w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr></w:p>", ""),
    ],
)
def test_words_of_a_paragraph(paragraph: str, text: str) -> None:
    assert text_of(paragraph) == text


def test_a_text_box_stands_once() -> None:
    box = "<w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
    spaces = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
    paragraph = (
        f"<w:p><w:r><w:t>anchor</w:t></w:r><w:r><mc:AlternateContent {spaces}>"
        f'<mc:Choice Requires="wps"><w:drawing>{box}</w:drawing></mc:Choice>'
        f"<mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>"
    )
    assert text_of(paragraph) == "anchor\n\nboxed"


def without(data: bytes, part: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            if name != part:
                new.writestr(name, old.read(name))
    return buffer.getvalue()


def test_a_damaged_file_says_so() -> None:
    data = data_of(docx.Document())
    broken = [data[:200], data[: len(data) // 2], b"PK\x03\x04", without(data, "word/document.xml")]
    for piece in broken:
        with pytest.raises(ParseError) as caught:
            parse(piece, Parse())
        assert caught.value.reason == "damaged"


def test_an_empty_document_is_no_failure() -> None:
    assert parse(data_of(docx.Document()), Parse()).text == ""
