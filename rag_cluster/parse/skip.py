"""Which files and folders are no documents, by their names alone."""

from __future__ import annotations

from pathlib import PurePath

# A hidden file with one of these endings is a document all the same: better one too many than lost.
_DOCUMENTS = {".pdf", ".docx", ".html", ".htm", ".md", ".markdown", ".jsonl", ".parquet"}
# Office's and LibreOffice's locks, Emacs's locks, what macOS writes beside a file elsewhere
_JUNK_PREFIXES = ("~$", ".~lock.", ".#", "._")
_JUNK = {"thumbs.db", "desktop.ini", "ehthumbs.db", "icon\r", "__macosx", "$recycle.bin"}


def why_file_is_skipped(name: str) -> str | None:
    """Why a file of this name is passed over ("hidden", "system file"), or None."""
    if name.lower() in _JUNK or name.startswith(_JUNK_PREFIXES):
        return "system file"
    document = PurePath(name).suffix.lower() in _DOCUMENTS
    return "hidden" if name.startswith(".") and not document else None


def why_folder_is_skipped(name: str) -> str | None:
    """Why a folder of this name is passed over ("hidden folder", "system file"), or None."""
    if name.startswith("."):
        return "hidden folder"
    return why_file_is_skipped(name)


def is_collection(folders: set[str], names: set[str]) -> bool:
    """Whether a folder with these is a collection, also one whose first ingest did not end."""
    return "versions" in folders and not {"CURRENT", "LOCK"}.isdisjoint(names)


def is_evaluation_data(folders: set[str], names: set[str]) -> bool:
    """Whether a folder is a test collection in BEIR's layout: only its corpus is documents."""
    return {"corpus.jsonl", "queries.jsonl"} <= names and "qrels" in folders
