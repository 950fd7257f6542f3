from __future__ import annotations

from rag_cluster.config import Parse
from rag_cluster.parse.markdown import outline, parse, plain

SOURCE = """\
---
title: "The title"
authors: [Ada, {name: Bob}]
date: 2024-05-06
tags: [a, b]
---
Intro

# *One* `code` & more #

Setext two
----------

```python
# not a heading
```

$$
x
=
# y
$$

| a | b |
|---|---|
| 1 | 2 |

> # quoted

<h3 align="center">HTML <b>three</b></h3>

Euler: $e^{i\\pi} = -1$ and \\(x_1\\).
"""


def test_headings_tables_and_front_matter() -> None:
    parsed = parse(SOURCE.encode(), Parse())
    assert (parsed.title, parsed.author, parsed.date) == ("The title", "Ada, Bob", "2024-05-06")
    assert parsed.metadata == {"tags": ["a", "b"]}
    assert parsed.text == SOURCE.split("---\n", 2)[2]  # the source, formulas and all
    assert [(h.title, h.level) for h in parsed.headings] == [
        ("One code & more", 1),
        ("Setext two", 2),
        ("HTML three", 3),
    ]
    starts = [parsed.text[h.start : h.body] for h in parsed.headings]
    assert starts[0] == "# *One* `code` & more #\n"
    assert starts[1] == "Setext two\n----------\n"
    (table,) = parsed.tables
    assert parsed.text[table.start : table.header_end] == "| a | b |\n|---|---|\n"
    assert parsed.text[table.header_end : table.end] == "| 1 | 2 |\n"


def test_spans_hold_with_crlf_and_without_a_last_newline() -> None:
    parsed = parse(b"# A\r\n\r\n|x|y|\r\n|-|-|\r\n|1|2|\r\n\r\n## B", Parse())
    assert [parsed.text[h.start : h.body] for h in parsed.headings] == ["# A\n", "## B"]
    assert [parsed.text[t.start : t.end] for t in parsed.tables] == ["|x|y|\n|-|-|\n|1|2|\n"]


def test_what_is_no_front_matter_stays() -> None:
    for text in ("---\na rule, then text\n---\nx", "---\n: [\n---\nx", "---\nopen"):
        assert parse(text.encode(), Parse()).text == text


def test_an_unclosed_formula_does_not_swallow_the_headings_after_it() -> None:
    headings, _ = outline("costs $$ here\n\n$$\nopen\n\n# After\n\ntext\n")
    assert [h.title for h in headings] == ["After"]


def test_plain() -> None:
    assert plain("A **b** [link](x.md) ![pic](y) `c_d` \\* {#anchor .x}") == "A b link pic c_d *"
