"""What a file is, by its content first and its name second; and its text out of its bytes."""

from __future__ import annotations

import codecs
import io
import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Kind = Literal["pdf", "html", "markdown", "docx", "text", "jsonl", "parquet", "unsupported"]

MEDIA_TYPES: dict[str, str] = {
    "pdf": "application/pdf",
    "html": "text/html",
    "markdown": "text/markdown",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "text": "text/plain",
    "jsonl": "application/jsonl",
    "parquet": "application/vnd.apache.parquet",
}

_MARKDOWN_SUFFIXES = {".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd"}
_HTML_SUFFIXES = {".html", ".htm", ".xhtml", ".shtml"}
_JSONL_SUFFIXES = {".jsonl", ".ndjson", ".jsonlines"}
_JSON_SUFFIXES = _JSONL_SUFFIXES | {".json", ".txt", ""}

# The first bytes of what is not read here. (RIFF covers WEBP, WAV and AVI.)
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"RIFF", "application/x-riff"),
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!", "application/vnd.rar"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\x7fELF", "application/x-elf"),
    (b"MZ", "application/vnd.microsoft.portable-executable"),
    (b"%!PS", "application/postscript"),
    (b"{\\rtf", "application/rtf"),
    (b"SQLite format 3", "application/vnd.sqlite3"),
)
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_WORD_MAIN = re.compile(
    rb"wordprocessingml\.(?:document|template)\.main\+xml|ms-word\.document\.macro"
)

_BOMS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HTML_START = re.compile(
    r"^\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_XML_START = re.compile(r"^\s*<\?xml\b|^\s*<svg\b", re.IGNORECASE)
_HTML_TAGS = re.compile(
    r"<(?:html|head|body|div|p|span|table|h[1-6]|ul|a)\b[^>]{0,500}>", re.IGNORECASE
)
_META_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([\w-]+)", re.IGNORECASE)
_XML_CHARSET = re.compile(rb"^\s*<\?xml[^>]+encoding\s*=\s*[\"']([\w-]+)", re.IGNORECASE)
_MARKDOWN_SIGNS = (
    re.compile(r"^#{1,6} \S.*\n[ \t]*\n", re.MULTILINE),
    re.compile(r"\[[^\]\n]{1,200}\]\([^)\s]{1,500}\)"),
    re.compile(r"^(?:```|~~~)", re.MULTILINE),
    re.compile(r"^[ \t]{0,9}\|?[ \t]{0,9}:?-{3,}:?[ \t]{0,9}\|", re.MULTILINE),
    re.compile(r"\*\*[^*\n]+\*\*"),
)
_HEAD = 8192
_SAMPLE = 65_536
_SHORT = 300


@dataclass(frozen=True, slots=True)
class Sniffed:
    """What a file is. `encrypted`: an Office file behind a password."""

    kind: Kind
    media_type: str
    encrypted: bool = False


def sniff(data: bytes, uri: str) -> Sniffed:
    """What the bytes are; the name of the file decides only where the bytes leave it open."""
    suffix = PurePosixPath(uri.partition("#")[0]).suffix.lower()
    head = data[:_HEAD]
    if b"%PDF-" in head[:1024] or (suffix == ".pdf" and _is_binary(head)):
        return _known("pdf")
    if head.startswith(b"PAR1"):
        return _known("parquet")
    if head.startswith(_ZIP):
        return _sniff_zip(data, suffix)
    if head.startswith(_OLE):
        return Sniffed("unsupported", "application/x-ole-storage", _OLE_ENCRYPTED in data)
    for magic, media_type in _MAGIC:
        if head.startswith(magic) and (len(magic) > 3 or _is_binary(head)):
            return Sniffed("unsupported", media_type)
    if _is_binary(head):
        return Sniffed("unsupported", "application/octet-stream")
    return _sniff_text(data, suffix)


def decode(data: bytes, *, markup: bool = False) -> str:
    """The text of the bytes: by byte order mark, declaration (`markup`), UTF-8, else by statistics.

    UTF-8 with a few foreign bytes stays UTF-8 and those bytes are read as Windows-1252.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    declared = _declared(data) if markup else None
    if declared is not None:
        return data.decode(declared, "replace")
    wide = _wide_encoding(data[:_HEAD])
    if wide is not None:
        return data.decode(wide, "replace")
    if _mostly_utf8(data):
        return data.decode("utf-8", "windows-1252-bytes")
    return data.decode(_guess(data), "replace")


def _known(kind: Kind) -> Sniffed:
    return Sniffed(kind, MEDIA_TYPES[kind])


def _is_binary(head: bytes) -> bool:
    if any(head.startswith(mark) for mark, _ in _BOMS) or _wide_encoding(head) is not None:
        return False
    controls = sum(head.count(byte) for byte in (*range(9), *range(14, 27), *range(28, 32)))
    return b"\x00" in head[:1024] or controls > len(head) // 20


def _wide_encoding(head: bytes) -> str | None:
    """UTF-16 without a mark: Latin text has a zero in every other byte."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if half >= 2 and odd > half * 0.4 and even < half * 0.05:
        encoding = "utf-16-le"
    elif half >= 2 and even > half * 0.4 and odd < half * 0.05:
        encoding = "utf-16-be"
    else:
        return None
    text = head.decode(encoding, "replace")
    controls = sum(character < " " and character not in "\t\n\r\f" for character in text)
    return encoding if controls * 20 < len(text) else None


def _sniff_zip(data: bytes, suffix: str) -> Sniffed:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
            types = archive.read("[Content_Types].xml") if "[Content_Types].xml" in names else b""
    except Exception:  # noqa: BLE001 - whatever is wrong with the archive, the name decides
        return _known("docx") if suffix in {".docx", ".docm"} else _zip_type("")
    if _WORD_MAIN.search(types) or "word/document.xml" in names:
        return _known("docx")
    roots = {name.partition("/")[0] for name in names}
    return _zip_type("xlsx" if "xl" in roots else "pptx" if "ppt" in roots else "")


def _zip_type(office: str) -> Sniffed:
    return Sniffed("unsupported", f"application/zip ({office})" if office else "application/zip")


def _sniff_text(data: bytes, suffix: str) -> Sniffed:
    head = decode(data[:_SAMPLE], markup=suffix in _HTML_SUFFIXES)
    if _HTML_START.search(head) or suffix in _HTML_SUFFIXES:
        return _known("html")
    if suffix in _JSONL_SUFFIXES or (suffix in _JSON_SUFFIXES and _is_jsonl(head)):
        return _known("jsonl")
    if suffix == ".json":
        return Sniffed("unsupported", "application/json")
    if suffix in _MARKDOWN_SUFFIXES:
        return _known("markdown")
    if _XML_START.search(head):
        is_html = re.search(r"<html\b", head, re.IGNORECASE) is not None
        return _known("html") if is_html else Sniffed("unsupported", "application/xml")
    if len(_HTML_TAGS.findall(head)) > max(10, len(head) // 400):
        return _known("html")
    signs = sum(bool(sign.search(head)) for sign in _MARKDOWN_SIGNS)
    return _known("markdown" if signs >= 3 and suffix in {".txt", ""} else "text")


def _is_jsonl(head: str) -> bool:
    lines = [line for line in head.split("\n") if line.strip()]
    whole = lines[:2] if len(lines) > 2 or len(head) < _SAMPLE // 2 else lines[:1]
    if not whole or not whole[0].lstrip().startswith("{"):
        return False
    try:
        return all(isinstance(json.loads(line), dict) for line in whole)
    except (ValueError, RecursionError):
        return False


def _declared(data: bytes) -> str | None:
    found = _META_CHARSET.search(data[:_HEAD]) or _XML_CHARSET.search(data[:_HEAD])
    if found is None:
        return None
    name = found.group(1).decode("ascii", "replace").lower()
    try:
        codec = codecs.lookup({"iso-8859-1": "cp1252", "latin1": "cp1252"}.get(name, name))
        data.decode(codec.name)
    except (LookupError, ValueError):
        return None
    return codec.name


def _mostly_utf8(data: bytes) -> bool:
    sample = data[: 4 * _SAMPLE]
    wrong = sample.decode("utf-8", "replace").count("\ufffd")
    high = sum(1 for byte in sample if byte >= 0x80)
    return wrong * 10 < high


def _guess(data: bytes) -> str:
    sample = data[:_SAMPLE]
    high = sum(1 for byte in sample if byte >= 0x80)
    if len(sample) < _SHORT and high * 5 < len(sample):
        return "cp1252"  # too little for statistics, and mostly ASCII: a Western text
    from charset_normalizer import from_bytes

    best = from_bytes(sample).best()
    return "cp1252" if best is None or best.encoding == "ascii" else best.encoding


def _as_windows_1252(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return wrong.decode("cp1252", "replace"), error.end


codecs.register_error("windows-1252-bytes", _as_windows_1252)
