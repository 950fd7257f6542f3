"""What the name of a file says, in words."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

# Names that programs and habits give, which say nothing of what is in the file.
_NO_NAME = re.compile(
    r"^(?:index|readme|main|document|untitled|scan|print|file|download|page|corpus|data|output|out"
    r"|copy|new|draft|final|test|temp|tmp|image|img|doc|text|content|article|\W|\d{1,3}|\d{5,})+$"
    r"|^[0-9a-f-]{12,}$",
    re.IGNORECASE,
)


def name_in_words(uri: str) -> str:
    """The file's name in words: "/data/2023_annual-report.pdf" -> "2023 annual report"."""
    stem = PurePosixPath(uri.partition("#")[0]).stem
    if " " not in stem:
        stem = re.sub(r"(?<=\w)[_-]+(?=\w)|_+|(?<=\w)\+(?=\w)", " ", stem)
        stem = re.sub(r"(?<=[a-zà-ÿ])(?=[A-ZÀ-Þ][a-zà-ÿ])", " ", stem)
    return " ".join(stem.split())


def telling_name(uri: str, title: str) -> str:
    """The file's name in words where it says something that the title does not, else "".

    A record is not named by its file, nor a file by what programs call files (index, scan0003).
    """
    name = name_in_words(uri)
    if "#" in uri or _NO_NAME.match(name) or not re.search(r"[^\W\d_]", name):
        return ""
    known = set(re.findall(r"\w+", title.casefold()))
    return "" if known.issuperset(re.findall(r"\w+", name.casefold())) else name
