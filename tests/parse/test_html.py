from __future__ import annotations

import pytest

from rag_cluster.config import Parse
from rag_cluster.parse.html import parse

SENTENCE = "The service reads one file at start-up and checks every key before it listens. "
PAGE = f"""<!doctype html><html lang="en"><head><title>Guide | Acme</title>
<meta name="author" content="Jo Li">
<meta property="article:published_time" content="2024-03-05T10:00:00Z">
<style>p {{color: red}}</style><script>var tracking = 1;</script></head><body>
<header><nav><ul><li><a href="/">Home page</a></li><li><a href="/d">Docs page</a></li></ul></nav>
</header><main><h1>Configuration guide</h1><p>{SENTENCE * 6}</p>
<h2>Ports &amp; hosts</h2><p>{SENTENCE * 4}</p>
<table><thead><tr><th>Key</th><th>Default</th></tr></thead>
<tbody><tr><td>port</td><td>80 | 90</td></tr><tr><td>host</td><td>any</td></tr></tbody></table>
<h3>Steps</h3><ul><li>Stop it<ul><li>gently</li></ul></li><li>Start it</li></ul>
<pre><code># limits
max: 1
</code></pre></main>
<aside><p>Subscribe to our newsletter</p></aside><footer><p>All rights reserved</p></footer>
</body></html>"""


def test_the_main_text_with_its_structure() -> None:
    parsed = parse(PAGE.encode(), Parse())
    assert [(h.title, h.level) for h in parsed.headings] == [
        ("Configuration guide", 1),
        ("Ports & hosts", 2),
        ("Steps", 3),
    ]
    for heading in parsed.headings:
        assert parsed.text[heading.start : heading.body].strip("# \n") == heading.title
    (table,) = parsed.tables
    assert parsed.text[table.start : table.header_end] == "| Key | Default |\n|---|---|\n"
    assert parsed.text[table.header_end : table.end] == "| port | 80 \\| 90 |\n| host | any |"
    assert "- Stop it\n  - gently\n- Start it" in parsed.text
    assert "```\n# limits\nmax: 1\n```" in parsed.text
    for noise in ("Home page", "newsletter", "rights reserved", "tracking", "color"):
        assert noise not in parsed.text
    assert (parsed.author, parsed.date) == ("Jo Li", "2024-03-05")


def text_of(body: str) -> str:
    return parse(f"<html><body>{body}</body></html>".encode(), Parse()).text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<h1>A</h1><p>b <b>c</b><br>d</p>", "# A\n\nb c\nd"),
        ("bare text<div>in a div</div>tail", "bare text\n\nin a div\n\ntail"),
        ("<ol start=3><li>a<p>more</p></li><li>b</li></ol>", "3. a\n   more\n4. b"),
        ("<ul><li>x<ol><li>y</li></ol></li></ul>", "- x\n  1. y"),
        ("<p>10<sup>6</sup> m<sub>2</sub></p>", "10^6 m2"),
        ("<p># no heading</p>", "# no heading"),
        ("<p>so <script type='math/tex'>x_1 < 2</script>.</p>", "so $x_1 < 2$."),
        (
            "<p>so <math><mi>x</mi><annotation encoding='x-tex'>x^2</annotation></math></p>",
            "so $x^2$",
        ),
        ("<p>seen</p><p hidden>not</p><p style='display: none'>not</p>", "seen"),
        (
            "<table><tr><th>a<th colspan=2>b<tr><td rowspan=2>1<td>2<td>3<tr><td>4<td>5</table>",
            "| a | b |  |\n|---|---|---|\n| 1 | 2 | 3 |\n|  | 4 | 5 |",
        ),
        ("<table><tr><td><h2>Framed</h2><p>text</p></td></tr></table>", "## Framed\n\ntext"),
        ("<nav>only navigation</nav>", "only navigation"),
        ("<!-- nothing -->", ""),
    ],
)
def test_short_pages_are_taken_as_they_are(body: str, text: str) -> None:
    assert text_of(body) == text


def test_a_paragraph_with_a_number_sign_is_no_heading() -> None:
    assert parse(b"<html><body><p># no</p></body></html>", Parse()).headings == []


def test_a_page_that_defeats_the_extractor_is_taken_whole() -> None:
    links = "".join(f"<li><a href='/{n}'>Entry number {n} of the list</a></li>" for n in range(60))
    parsed = parse(f"<html><body><ul>{links}</ul></body></html>".encode(), Parse())
    assert "Entry number 0 of the list" in parsed.text
    assert "Entry number 59 of the list" in parsed.text


def test_odd_sources_do_not_break_it() -> None:
    for source in (
        b"   ",
        b"<html></html>",
        b"<",
        b"<?xml version='1.0' encoding='utf-8'?><html/>",
    ):
        parse(source, Parse())
    deep = b"<div>" * 200 + b"deep" + b"</div>" * 200
    assert parse(b"<html><body>" + deep, Parse()).text == "deep"
    parse(b"<html><body>" + b"<div>" * 5000 + b"deeper", Parse())
