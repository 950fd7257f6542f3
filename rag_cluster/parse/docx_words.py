"""The words of a DOCX paragraph, with formulas in a line of LaTeX-like text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"

# Deleted or moved text, field codes, page furniture, and text boxes (which stand by themselves).
_SILENT = {"del", "moveFrom", "instrText", "delText", "pPr", "rPr", "txbxContent", "Fallback"}
_SILENT |= {"footnoteRef", "endnoteRef", "annotationRef", "sdtPr", "sectPr", "rt"}
_BREAKS = {"br", "cr"}


def local(element: Any) -> str:
    """The tag without its namespace; "" for comments."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def words(element: Any) -> str:
    """The text under an element: runs, links, insertions, content controls, formulas."""
    parts: list[str] = []
    for child in element:
        name = local(child)
        if name in _SILENT:
            continue
        if child.tag in (f"{M}oMath", f"{M}oMathPara"):
            parts.append(formula(child))
        elif name == "t":
            parts.append(child.text or "")
        elif name == "tab":
            parts.append("\t")
        elif name in _BREAKS:
            parts.append("\n")
        elif name == "noBreakHyphen":
            parts.append("-")
        elif name == "footnoteReference":
            parts.append(f"[^{child.get(f'{W}id')}]")
        elif name == "endnoteReference":
            parts.append(f"[^e{child.get(f'{W}id')}]")
        elif name == "sym":
            parts.append(_symbol(child))
        else:
            parts.append(words(child))
    return "".join(parts)


def formula(element: Any) -> str:
    """An Office formula as `$...$`; what stands outside the common structures gives its letters."""
    inner = " ".join(_math(element).split())
    return f"${inner}$" if inner else ""


def _math(element: Any) -> str:
    shape = _SHAPES.get(local(element))
    if shape is not None:
        return shape(element)
    if local(element) == "t":
        return element.text or ""
    return "".join(_math(child) for child in element if not local(child).endswith("Pr"))


def _part(element: Any, name: str) -> str:
    found = element.find(f"{M}{name}")
    return "" if found is None else _math(found)


def _value(element: Any, path: str, default: str) -> str:
    found = element.find("/".join(f"{M}{step}" for step in path.split("/")))
    value = None if found is None else found.get(f"{M}val")
    return default if value is None else str(value)


def _root(element: Any) -> str:
    degree = _part(element, "deg")
    return f"\\sqrt{f'[{degree}]' if degree else ''}{{{_part(element, 'e')}}}"


def _nary(element: Any) -> str:
    sign = _value(element, "naryPr/chr", "∫")
    low, high = _part(element, "sub"), _part(element, "sup")
    bounds = (f"_{{{low}}}" if low else "") + (f"^{{{high}}}" if high else "")
    return f"{sign}{bounds} {_part(element, 'e')}"


def _delimited(element: Any) -> str:
    opening, closing = _value(element, "dPr/begChr", "("), _value(element, "dPr/endChr", ")")
    return opening + ", ".join(_math(part) for part in element.findall(f"{M}e")) + closing


def _matrix(element: Any) -> str:
    rows = [" & ".join(_math(e) for e in row.findall(f"{M}e")) for row in element.findall(f"{M}mr")]
    return " \\\\ ".join(rows)


_SHAPES: dict[str, Callable[[Any], str]] = {
    "f": lambda e: f"\\frac{{{_part(e, 'num')}}}{{{_part(e, 'den')}}}",
    "sSup": lambda e: f"{_part(e, 'e')}^{{{_part(e, 'sup')}}}",
    "sSub": lambda e: f"{_part(e, 'e')}_{{{_part(e, 'sub')}}}",
    "sSubSup": lambda e: f"{_part(e, 'e')}_{{{_part(e, 'sub')}}}^{{{_part(e, 'sup')}}}",
    "rad": _root,
    "nary": _nary,
    "d": _delimited,
    "m": _matrix,
}


def _symbol(element: Any) -> str:
    """A symbol-font character; those in the private area have no meaning outside their font."""
    try:
        code = int(element.get(f"{W}char", ""), 16)
    except ValueError:
        return ""
    return "" if 0xE000 <= code <= 0xF8FF else chr(code)
