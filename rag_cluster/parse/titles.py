"""A document's title: the file's own if it is worth something, else a heading, else its name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_cluster.names import name_in_words
from rag_cluster.parse.clean import one_line, scrub
from rag_cluster.parse.parsed import Heading
from rag_cluster.parse.sections import title_role

_LONGEST_TITLE = 200
_TITLE_WITHIN = 3000  # characters from the start in which a first heading can be the title

# What programs write into the title field by themselves.
_NO_TITLE = re.compile(
    r"""^(?:microsoft\s+(?:word|powerpoint|excel|office)\b.*|(?:powerpoint|word|excel)\s+(?:presentation|document)
    |untitled.*|unbenannt.*|sans\s+titre.*|sin\s+t[ií]tulo.*|no\s+title|title|titel|unknown|anonymous|\(?anonymous\)?
    |(?:document|dokument|doc|slide|page|sheet|book|presentation|pr[äa]sentation|layout|print|scan|image|img|foil)[\s_-]*\d*
    |about:blank|https?://\S+|file:.*|[\w.-]+@[\w.-]+|.*[\\/].*\.\w{2,5}
    |\S*\.(?:docx?|pdf|p65|pmd|indd?|qxd|qxp|tex|dvi|ps|eps|pptx?|xlsx?|rtf|odt|txt|html?|md|tmp|fm|wpd)
    |.*\.(?:docx?|indd|qxd|dvi|pptx?|xlsx?|rtf|tmp|fm)
    |[\W\d_]+|.{0,2}|[0-9a-f-]{16,})$""",
    re.IGNORECASE | re.VERBOSE,
)


def title_from_name(uri: str) -> str:
    """The file's name in words: "/data/2023_annual-report.pdf" -> "2023 annual report"."""
    return one_line(scrub(name_in_words(uri))) or one_line(scrub(uri))


def is_title(text: str | None) -> bool:
    """Whether a title field holds words that a person meant as a title."""
    return text is not None and _NO_TITLE.match(text.strip()[:_LONGEST_TITLE]) is None


def choose_title(own: str | None, headings: Sequence[Heading], uri: str) -> str:
    """The file's own title if it is worth something, else the first heading, else its name."""
    if own is not None and is_title(one_line(own)):
        return one_line(own)[:_LONGEST_TITLE]
    for heading in headings:
        if heading.start > _TITLE_WITHIN:
            break
        if is_title(heading.title) and title_role(heading.title) == "body":
            return one_line(heading.title)[:_LONGEST_TITLE]
    return title_from_name(uri)[:_LONGEST_TITLE]
