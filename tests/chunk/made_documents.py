"""Documents for the tests of this folder: written by hand, or made at random."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from rag_cluster.schema import DOCUMENT, document_id, rows_to_table


@dataclass
class Made:
    """A DOCUMENT row in the making, and what a test must know of it."""

    text: str = ""
    sections: list[dict[str, Any]] = field(default_factory=list)
    tables: list[dict[str, int]] = field(default_factory=list)
    formulas: list[tuple[int, int]] = field(default_factory=list)
    rows: list[tuple[int, int]] = field(default_factory=list)
    headings: list[tuple[int, int]] = field(default_factory=list)

    def heading(self, title: str, level: int = 1, role: str = "body") -> Made:
        start = len(self.text)
        self.text += f"{title}\n"
        self.headings.append((start, len(self.text)))
        parent = next(
            (i for i in reversed(range(len(self.sections))) if self.sections[i]["level"] < level),
            -1,
        )
        above = [self.sections[parent]["path"]] if parent >= 0 else []
        self._open(title, level, parent, " > ".join([*above, title]), role, start)
        return self

    def add(self, text: str, end: str = "\n\n") -> Made:
        if not self.sections:
            self._open("", 0, -1, "", "body", 0)
        self.text += text + end
        return self

    def formula(self, formula: str) -> Made:
        self.add("", end="")
        self.formulas.append((len(self.text), len(self.text) + len(formula)))
        return self.add(formula)

    def table(self, header: list[str], rows: list[str]) -> Made:
        self.add("", end="")
        start = len(self.text)
        self.text += "".join(line + "\n" for line in header)
        header_end = len(self.text)
        for row in rows:
            self.rows.append((len(self.text), len(self.text) + len(row)))
            self.text += row + "\n"
        self.tables.append({"start": start, "header_end": header_end, "end": len(self.text)})
        self.text += "\n"
        return self

    def row(self, **columns: Any) -> dict[str, Any]:
        for index, section in enumerate(self.sections):
            following = self.sections[index + 1 : index + 2]
            section["end"] = following[0]["start"] if following else len(self.text)
        defaults = {
            "doc_id": document_id("made"),
            "uri": "made.md",
            "title": "Made",
            "text": self.text,
            "pages": [],
            "sections": self.sections,
            "tables": self.tables,
            "metadata": json.dumps({}),
            "status": "ok",
        }
        return defaults | columns

    def documents(self, **columns: Any):
        return rows_to_table([self.row(**columns)], DOCUMENT)

    def _open(self, title: str, level: int, parent: int, path: str, role: str, start: int) -> None:
        self.sections.append(
            {
                "title": title,
                "level": level,
                "parent": parent,
                "path": path,
                "role": role,
                "start": start,
                "body": len(self.text),
                "end": -1,
            }
        )


LATIN = ["the", "rate", "of", "Yes.", "Growth", "electroencephalographically", "café?", "naïve"]
SIGNS = ["3.5%", '"see', "4).", "$5", "U.S.", "x_1", "e.g.", "😀", "👩‍👩‍👧"]
ASIAN = ["日本語。", "東京は晴れです", "한국어"]
WORDS = st.sampled_from([*LATIN, *SIGNS, *ASIAN])
SPACES = st.sampled_from([" ", " ", " ", "\n", "  ", "\u00a0", "\n\n"])


@st.composite
def prose(draw: st.DrawFn) -> str:
    words = draw(st.lists(st.tuples(WORDS, SPACES), min_size=1, max_size=70))
    return "".join(word + space for word, space in words)


FORMULAS = st.sampled_from(
    [
        "$$ E = m c^2 $$",
        "\\[ \\sum_{i=1}^{n} x_i = \\frac{a}{b} \\]",
        "\\begin{equation}\n a &= b + c \\\\\n d &= e \n\\end{equation}",
        "$a_1 + b_2 = c_3$",
        "$$\n" + " + ".join(f"x_{{{i}}} y^{{{i}}}" for i in range(12)) + "\n$$",
    ]
)
ROWS = st.lists(
    st.lists(WORDS, min_size=1, max_size=6).map(lambda cells: f"| {' | '.join(cells)} |"),
    min_size=1,
    max_size=12,
)


@st.composite
def made(draw: st.DrawFn) -> Made:
    """A document of random sections with prose, tables, formulas and code."""
    document = Made()
    for index in range(draw(st.integers(1, 4))):
        if index or draw(st.booleans()):
            document.heading(f"{index} {draw(WORDS)}", draw(st.integers(1, 3)))
        for kind in draw(st.lists(st.sampled_from("ptfpc"), max_size=5)):
            match kind:
                case "p":
                    document.add(draw(prose()))
                case "t":
                    document.table(["| a | b |", "|---|---|"], draw(ROWS))
                case "f":
                    document.formula(draw(FORMULAS))
                case _:
                    document.add("```\ncode = [1]\n\nmore = 2\n```")
    return document
