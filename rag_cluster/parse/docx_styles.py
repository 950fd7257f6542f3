"""What a DOCX paragraph is by its style and numbering: a heading, a list item, code."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from rag_cluster.parse.docx_words import W

# Names of the built-in heading styles as Word and other programs write them in several languages.
# (Word itself stores the English name; others store what their user sees.)
_HEADING = re.compile(
    r"^(?:heading|überschrift|titre|título|titolo|kop|rubrik|overskrift|otsikko|nagłówek|nadpis|"
    r"заголовок|标题|標題|見出し|제목|cabeçalho|encabezado|başlık)\s*(\d)$",  # noqa: RUF001
    re.IGNORECASE,
)
_TITLE = re.compile(r"^(?:title|titel|titre|título|titolo|标题|表題|제목|название)$", re.IGNORECASE)
_BULLETS = re.compile(r"^(?:list bullet|aufzählungszeichen|liste à puces)\s*(\d?)$", re.IGNORECASE)
_NUMBERS = re.compile(r"^(?:list number|listennummer|liste à numéros)\s*(\d?)$", re.IGNORECASE)
_CODE = re.compile(
    r"^(?:html preformatted|source ?code|code|preformatted text|verbatim)", re.IGNORECASE
)
_BODY_LEVEL = 9
_MOST_STYLES = 30


@dataclass(slots=True)
class _Style:
    name: str
    parent: str | None
    outline: int | None
    numbering: tuple[str, int] | None


@dataclass(slots=True)
class Styles:
    """The document's styles and numberings; counts the items of its numbered lists as it goes."""

    styles: dict[str, _Style] = field(default_factory=dict)
    # numId -> level -> format ("bullet", "decimal", ...)
    numberings: dict[str, dict[int, str]] = field(default_factory=dict)
    _counts: dict[tuple[str, int], int] = field(default_factory=dict)

    def heading_level(self, paragraph: Any) -> int | None:
        """The level from 1, 0 for the document's title; None for what is no heading."""
        own = _value(paragraph.find(f"{W}pPr/{W}outlineLvl"))
        if own is not None and own.isdigit():
            return int(own) + 1 if int(own) < _BODY_LEVEL else None
        for style in self._chain(paragraph):
            found = _HEADING.match(style.name)
            if found:
                return max(int(found.group(1)), 1)
            if _TITLE.match(style.name):
                return 0
            if style.outline is not None:
                return style.outline + 1 if style.outline < _BODY_LEVEL else None
        return None

    def list_item(self, paragraph: Any) -> tuple[int, str] | None:
        """Nesting from 0 and marker ("-", "3.") of a list item; None for what is none."""
        numbering = _numbering(paragraph.find(f"{W}pPr/{W}numPr"))
        chain = self._chain(paragraph)
        if numbering is None:
            numbering = next((s.numbering for s in chain if s.numbering is not None), None)
        if numbering is not None:
            if numbering[0] == "0":  # Word's way to take a paragraph out of its style's list
                return None
            return numbering[1], self._marker(*numbering)
        for style in chain:
            for pattern, name in ((_BULLETS, ""), (_NUMBERS, "styled")):
                found = pattern.match(style.name)
                if found:
                    level = int(found.group(1) or 1) - 1
                    return level, self._count(name, level) if name else "-"
        return None

    def is_code(self, paragraph: Any) -> bool:
        """Whether the paragraph is of a style for code."""
        return any(_CODE.match(style.name) for style in self._chain(paragraph))

    def _marker(self, number_id: str, level: int) -> str:
        form = self.numberings.get(number_id, {}).get(level, "bullet")
        return "-" if form in {"bullet", "none"} else self._count(number_id, level)

    def _count(self, list_id: str, level: int) -> str:
        for deeper in [key for key in self._counts if key[0] == list_id and key[1] > level]:
            del self._counts[deeper]
        self._counts[list_id, level] = self._counts.get((list_id, level), 0) + 1
        return f"{self._counts[list_id, level]}."

    def _chain(self, paragraph: Any) -> list[_Style]:
        """The paragraph's style and those that it is based on."""
        chain: list[_Style] = []
        name = _value(paragraph.find(f"{W}pPr/{W}pStyle"))
        while name in self.styles and len(chain) < _MOST_STYLES:
            chain.append(self.styles[name])
            name = chain[-1].parent
        return chain


def read_styles(document: Any) -> Styles:
    """The styles and numberings of a python-docx document; what is absent or damaged is empty."""
    styles = Styles()
    for root in _parts(document, "styles"):
        for style in root.iter(f"{W}style"):
            outline = _value(style.find(f"{W}pPr/{W}outlineLvl"))
            styles.styles[style.get(f"{W}styleId", "")] = _Style(
                name=_value(style.find(f"{W}name")) or "",
                parent=_value(style.find(f"{W}basedOn")),
                outline=int(outline) if outline is not None and outline.isdigit() else None,
                numbering=_numbering(style.find(f"{W}pPr/{W}numPr")),
            )
    for root in _parts(document, "numbering"):
        abstract = {
            entry.get(f"{W}abstractNumId"): {
                int(level.get(f"{W}ilvl", "0")): _value(level.find(f"{W}numFmt")) or "bullet"
                for level in entry.iter(f"{W}lvl")
            }
            for entry in root.iter(f"{W}abstractNum")
        }
        for entry in root.iter(f"{W}num"):
            levels = abstract.get(_value(entry.find(f"{W}abstractNumId")), {})
            styles.numberings[entry.get(f"{W}numId", "")] = levels
    return styles


def _parts(document: Any, kind: str) -> list[Any]:
    roots = []
    for relation in document.part.rels.values():
        if not relation.is_external and relation.reltype.endswith(f"/{kind}"):
            try:
                roots.append(etree.fromstring(relation.target_part.blob))
            except etree.LxmlError:
                continue  # without its styles the text is still there
    return roots


def _value(element: Any) -> str | None:
    return None if element is None else element.get(f"{W}val")


def _numbering(element: Any) -> tuple[str, int] | None:
    if element is None:
        return None
    number = _value(element.find(f"{W}numId"))
    level = _value(element.find(f"{W}ilvl")) or "0"
    return None if number is None else (number, int(level) if level.isdigit() else 0)
