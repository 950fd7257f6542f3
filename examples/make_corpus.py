"""Write the binary documents of the example corpus from their sources: PDF and DOCX.

    python -m examples.make_corpus [FOLDER]        default: examples/corpus

Each file under sources/ is Markdown with a front matter that says how it is laid out. The same
sources give the same bytes with the same versions of PyMuPDF and python-docx, so that a page that
examples/qrels.tsv names stays where it is. The corpus' HTML, Markdown, text and JSONL files are
written by hand and are not touched.
"""

from __future__ import annotations

import io
import sys
import zipfile
from datetime import datetime
from pathlib import Path

import docx
import pymupdf

from examples.layout import Layout
from examples.source import Source, read_source

HERE = Path(__file__).parent
BROKEN = "delivery-note-0417.pdf"


def main() -> None:
    """Write the corpus into the folder that the command line names."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in make_all().items():
        (folder / name).write_bytes(data)


def make_all() -> dict[str, bytes]:
    """The files by name."""
    files: dict[str, bytes] = {}
    for path in sorted((HERE / "sources").glob("*.md")):
        source = read_source(path.read_text(encoding="utf-8"))
        if source.front.get("format") == "docx":
            files[f"{path.stem}.docx"] = make_docx(source)
        elif source.front.get("scan"):
            files[f"{path.stem}.pdf"] = make_scan(make_pdf(source))
        else:
            files[f"{path.stem}.pdf"] = make_pdf(source)
    files[BROKEN] = make_broken(files["price-list-2025.pdf"])
    return files


def make_pdf(source: Source) -> bytes:
    """A PDF with running lines and page numbers; with an outline where the front matter says so."""
    layout = Layout(source.front)
    for block in source.blocks:
        layout.place(block)
    return save_pdf(layout.finish(), source)


def save_pdf(document: pymupdf.Document, source: Source) -> bytes:
    """The bytes of a document, with the title, author and date of its source."""
    stamp = f"D:{source.front['date']:%Y%m%d}120000Z"
    document.set_metadata(
        {
            "title": source.front["title"],
            "author": source.front["author"],
            "creationDate": stamp,
            "modDate": stamp,
            "producer": "rag-cluster example corpus",
        }
    )
    return bytes(document.tobytes(garbage=3, deflate=True, no_new_id=True))


def make_scan(data: bytes) -> bytes:
    """The pages as pictures, as a scanner would give them: no text layer."""
    scanned = pymupdf.open()
    for page in pymupdf.open(stream=data, filetype="pdf"):
        picture = page.get_pixmap(dpi=60, colorspace=pymupdf.csGRAY)
        target = scanned.new_page(width=page.rect.width, height=page.rect.height)
        target.insert_image(target.rect, pixmap=picture)
    return bytes(scanned.tobytes(garbage=3, deflate=True, no_new_id=True))


def make_broken(data: bytes) -> bytes:
    """A PDF whose download stopped half-way.

    Its catalogue and page tree stand in compressed object streams near its end, as most writers
    put them today; so no page can be repaired out of what is left.
    """
    packed = pymupdf.open(stream=data, filetype="pdf").tobytes(use_objstms=1, no_new_id=True)
    return bytes(packed[: len(packed) // 2])


def make_docx(source: Source) -> bytes:
    """A DOCX with Word's own heading, list and table styles."""
    document = docx.Document()
    for block in source.blocks:
        match block.kind:
            case "heading":
                document.add_heading(block.text, level=block.level)
            case "item":
                document.add_paragraph(block.text, style="List Bullet")
            case "table":
                table = document.add_table(rows=0, cols=len(block.rows[0]))
                table.style = "Table Grid"
                for row in block.rows:
                    for cell, text in zip(table.add_row().cells, row, strict=True):
                        cell.text = text
            case _:
                document.add_paragraph(block.text)
    core = document.core_properties
    core.title, core.author = source.front["title"], source.front["author"]
    when = datetime.combine(source.front["date"], datetime.min.time())
    core.created = core.modified = when
    core.comments = ""
    written = io.BytesIO()
    document.save(written)
    return without_times(written.getvalue())


def without_times(data: bytes) -> bytes:
    """The ZIP archive with one fixed time on all its members."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():
            member = zipfile.ZipInfo(name, date_time=(2025, 1, 1, 0, 0, 0))
            member.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(member, old.read(name))
    return packed.getvalue()


if __name__ == "__main__":
    main()
