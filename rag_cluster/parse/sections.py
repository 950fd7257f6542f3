"""The heading tree of a text as a partition of it: levels, parents, breadcrumbs and roles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rag_cluster.parse.parsed import Heading
from rag_cluster.schema import Role

SEPARATOR = " > "

_TITLES: dict[Role, frozenset[str]] = {
    "references": frozenset(
        """
        references|reference list|list of references|bibliography|selected bibliography|works cited
        literature cited|cited literature|references and notes|references cited|literature
        literatur|literaturverzeichnis|literaturangaben|quellenverzeichnis|quellen und literatur
        références|références bibliographiques|bibliographie|referencias|bibliografía
        referencias bibliográficas|referências|referências bibliográficas|bibliografia
        riferimenti bibliografici|literatuur|literatuurlijst|bronnen|referenser|litteratur
        litteraturliste|referanser|kirjallisuus|lähteet|piśmiennictwo|literatura|kaynakça|kaynaklar
        литература|список литературы|библиография|参考文献|参考文献列表|參考文獻|引用文献|文献
        参考书目|參考書目|참고문헌|참고 문헌|المراجع
        """.replace("\n", "|").split("|")
    ),
    "contents": frozenset(
        """
        contents|table of contents|list of figures|list of tables|toc|brief contents
        inhalt|inhaltsverzeichnis|inhaltsübersicht|abbildungsverzeichnis|tabellenverzeichnis
        table des matières|sommaire|índice|índice de contenidos|tabla de contenido|contenido
        tabla de contenidos|índice general|sumário|conteúdo|indice|sommario|indice generale|inhoud
        inhoudsopgave|innehåll|innehållsförteckning|indhold|indholdsfortegnelse|innhold
        sisällys|sisällysluettelo|spis treści|obsah|içindekiler|содержание|оглавление|目录|目次|目錄
        차례|목차|المحتويات
        """.replace("\n", "|").split("|")
    ),
    "index": frozenset(
        """
        index|subject index|author index|index of terms|index of names|general index
        stichwortverzeichnis|sachverzeichnis|sachregister|register|namensverzeichnis|personenregister
        index alphabétique|index général|índice alfabético|índice analítico|índice remissivo
        indice analitico|zakenregister|sakregister|предметный указатель|索引|찾아보기|색인
        """.replace("\n", "|").split("|")
    ),
}
_ROLES: dict[str, Role] = {
    title.strip(): role for role, titles in _TITLES.items() for title in titles if title.strip()
}

# "7.", "A.2", "IV." or "Appendix B:" before a title
_NUMBERING = re.compile(r"^(?:(?:\d+|[ivxlc]+|[a-z])[.)](?:\d+[.)]?)*|\d+)\s+", re.IGNORECASE)
_LISTED = re.compile(
    r"(?:\.{3,}|…|(?:\. ){3,}|\t|\s)\s*(?:\d{1,4}|[ivxlc]{1,6})\s*\|?$", re.IGNORECASE
)
_LEADERS = re.compile(r"\.{4,}|…{2,}|(?:\. ){4,}")
_LINK_ITEM = re.compile(r"^(?:[-*+]|\d+[.)])\s+\[[^\]]*\]\([^)]*\)\s*$")
_PAGE_LIST = re.compile(r"(?:,|\s)\s*\d{1,4}(?:\s*[-–]\s*\d{1,4})?[a-z]{0,2}\s*$")  # noqa: RUF001
_APPENDIX = re.compile(
    r"^(?:appendix|annex|anhang|anlage|annexe|apéndice|anexo|附录|付録)\b", re.IGNORECASE
)
_FEW_LINES = 2
_SHORT_LINE = 90
_TAIL = 80  # characters at the end of a line, where its page number is looked for
_SENTENCE_END = re.compile(r"[.!?。！？]$")  # noqa: RUF001


def build_sections(text: str, headings: Sequence[Heading], title: str) -> list[dict[str, Any]]:
    """SECTION structs that partition the text; [] for an empty text.

    Text before the first heading is a section of level 0 (no text but space there: it goes to the
    first heading's section). A top heading that repeats the document's `title` is left out of the
    breadcrumbs of the sections under it, since the title is known anyway.
    """
    if not text:
        return []
    marks = _in_order(text, headings)
    if not marks or text[: marks[0].start].strip():
        marks.insert(0, Heading("", 0, 0, 0))
    else:
        marks[0] = Heading(marks[0].title, marks[0].level, 0, marks[0].body)
    sections: list[dict[str, Any]] = []
    open_sections: list[int] = []
    for position, mark in enumerate(marks):
        end = marks[position + 1].start if position + 1 < len(marks) else len(text)
        while open_sections and sections[open_sections[-1]]["level"] >= mark.level:
            open_sections.pop()
        parent = open_sections[-1] if open_sections else -1
        sections.append(
            {
                "title": mark.title,
                "level": mark.level,
                "parent": parent,
                "path": _path(sections, parent, mark.title, title),
                "role": "body",
                "start": mark.start,
                "body": min(max(mark.body, mark.start), end),
                "end": end,
            }
        )
        if mark.level > 0:
            open_sections.append(position)
    for section in sections:
        section["role"] = _role(text, section, sections)
    return sections


def title_role(title: str) -> Role:
    """The role that a heading's words alone suggest."""
    words = " ".join(title.casefold().strip(" \t:.*_#").split())
    return _ROLES.get(words) or _ROLES.get(_NUMBERING.sub("", words)) or "body"


def _in_order(text: str, headings: Sequence[Heading]) -> list[Heading]:
    marks: list[Heading] = []
    for mark in sorted(headings, key=lambda heading: heading.start):
        if 0 <= mark.start < len(text) and (not marks or mark.start > marks[-1].start):
            marks.append(Heading(mark.title, max(mark.level, 1), mark.start, mark.body))
    return marks


def _path(sections: list[dict[str, Any]], parent: int, own: str, title: str) -> str:
    names = [own]
    while parent >= 0:
        names.insert(0, sections[parent]["title"])
        parent = sections[parent]["parent"]
    if len(names) > 1 and _same(names[0], title):
        names = names[1:]
    return SEPARATOR.join(name for name in names if name)


def _same(one: str, other: str) -> bool:
    return " ".join(one.casefold().split()) == " ".join(other.casefold().split())


def _role(text: str, section: dict[str, Any], sections: list[dict[str, Any]]) -> Role:
    parent = section["parent"]
    inherited: Role = sections[parent]["role"] if parent >= 0 else "body"
    if inherited != "body" and not _APPENDIX.match(section["title"]):
        return inherited
    role = title_role(section["title"])
    lines = [line.strip() for line in text[section["body"] : section["end"]].split("\n")]
    lines = [line for line in lines if line]
    if role == "contents" and not _looks_like_contents(lines, sections):
        # "Índice" and "Indice" are both a table of contents and an index at the back.
        return "index" if _looks_like_index(lines) and "ndice" in section["title"] else "body"
    if role == "index" and not _looks_like_index(lines):
        return "contents" if _looks_like_contents(lines, sections) else "body"
    return role


def _looks_like_contents(lines: list[str], sections: list[dict[str, Any]]) -> bool:
    if len(lines) < _FEW_LINES:
        return any(_LEADERS.search(line[-_TAIL:]) for line in lines)
    listed = sum(
        bool(
            _LISTED.search(line[-_TAIL:])
            or _LEADERS.search(line[-_TAIL:])
            or _LINK_ITEM.match(line)
        )
        for line in lines
    )
    if listed * 2 >= len(lines):
        return True
    if any(len(line) > _SHORT_LINE or _SENTENCE_END.search(line) for line in lines):
        return False
    titles = {_bare(section["title"]) for section in sections if section["title"]}
    return sum(_bare(line) in titles for line in lines) * 2 >= len(lines)


def _looks_like_index(lines: list[str]) -> bool:
    if len(lines) <= _FEW_LINES:
        return False
    return sum(bool(_PAGE_LIST.search(line[-_TAIL:])) for line in lines) * 2 >= len(lines)


def _bare(line: str) -> str:
    line = re.sub(r"^(?:[-*+]|\d+(?:\.\d+)*[.)]?)\s+", "", line.casefold().strip())
    return re.sub(r"[\s.…]*\d*$", "", re.sub(r"^\d+(?:\.\d+)*[.)]?\s+", "", line))
