from __future__ import annotations

import io
import zipfile

import pytest

from rag_cluster.parse.sniff import decode, sniff


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, data in members.items():
            file.writestr(name.replace("__", "/"), data)
    return buffer.getvalue()


WORD = archive(**{"word__document.xml": b"<w/>"})
MARKDOWN = b"# One\n\nText with [a link](http://x.org).\n\n```\ncode\n```\n\n# Two\n\n**bold**\n"


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (b"%PDF-1.7\n...", "a.txt", "pdf"),
        (b"junk\n%PDF-1.4\n...", "a.pdf", "pdf"),
        (b"<!DOCTYPE html><html><body>x</body></html>", "a.pdf", "html"),
        (b"<html><body>x</body></html>", "notes.md", "html"),
        (b"\xef\xbb\xbf <!-- c --> <HTML lang=en><p>x", "a", "html"),
        (b"<p>a fragment</p>", "a.html", "html"),
        (WORD, "a.zip", "docx"),
        (b"PK\x03\x04 broken", "a.docx", "docx"),
        (archive(a=b"x"), "a.docx", "unsupported"),
        (archive(**{"xl__workbook.xml": b"x"}), "a.xlsx", "unsupported"),
        (b'{"_id": "1", "text": "a"}\n{"_id": "2", "text": "b"}\n', "a.txt", "jsonl"),
        (b'not json\n{"_id": "1"}\n', "a.jsonl", "jsonl"),
        (b'{"one": "object"}\n', "a.json", "jsonl"),
        (b'{\n "one": "object"\n}\n', "a.json", "unsupported"),
        (b"[" * 100_000, "a.txt", "text"),
        (b"\n" * 100_000 + b"x", "a.txt", "text"),
        (b'{"a":' * 100_000, "a.txt", "text"),
        (b"PAR1....", "a.bin", "parquet"),
        (b"plain words", "a.md", "markdown"),
        (MARKDOWN, "a.txt", "markdown"),
        (b"# a comment\nkey = value\n", "settings.txt", "text"),
        (b"plain words", "a.log", "text"),
        (b"\x89PNG\r\n\x1a\n\x00", "a.md", "unsupported"),
        (b"MZ\x90\x00\x03\x00", "a.exe", "unsupported"),
        (b"\x00\x01\x02\x03" * 50, "a.txt", "unsupported"),
        (b"<?xml version='1.0'?><note/>", "a.xml", "unsupported"),
        ("Grüße aus Köln".encode("utf-16"), "a.txt", "text"),
        ("Grüße aus Köln".encode("utf-16-le"), "a.txt", "text"),
        (b"MZ is a code for Mozambique", "a.txt", "text"),
    ],
)
def test_sniff(data: bytes, name: str, kind: str) -> None:
    assert sniff(data, f"/data/{name}").kind == kind


def test_an_office_file_behind_a_password_is_known() -> None:
    data = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le")
    assert sniff(data, "a.docx").encrypted


RUSSIAN = (
    "Съешь же ещё этих мягких французских булок, да выпей чаю. Под южным деревом цитрус жил? "
    "Да, но фальшивый экземпляр! Широкая электрификация южных губерний даст мощный толчок. "
) * 3
JAPANESE = "日本語の文章は漢字と仮名で書かれています。これは文字コードを判定するための文です。" * 5


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Grüße", "utf-8"),
        ("Grüße", "utf-8-sig"),
        ("Grüße aus Köln", "utf-16"),
        ("Grüße aus Köln", "utf-16-be"),
        ("Grüße aus Köln, 5 € das Stück", "cp1252"),
        (RUSSIAN, "cp1251"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
    ],
)
def test_decode(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


def test_a_declared_encoding_counts_in_markup_where_it_fits() -> None:
    page = "<meta charset='iso-8859-2'><p>Łódź leży w środku Polski</p>"
    assert decode(page.encode("iso-8859-2"), markup=True) == page
    wrong = "<meta charset=ascii><p>Grüße</p>"
    assert decode(wrong.encode("utf-8"), markup=True) == wrong
    unknown = "<meta charset=klingon><p>Grüße</p>"
    assert decode(unknown.encode("cp1252"), markup=True) == unknown


def test_a_foreign_byte_does_not_cost_the_other_characters() -> None:
    data = "Über die Brücke gehen fünf Männer. ".encode() * 3 + b"Caf\xe9"
    assert decode(data) == "Über die Brücke gehen fünf Männer. " * 3 + "Café"
