"""Whether a question stands on its own: it must not point at a text that its reader cannot see.

A rule of words, on the safe side: a question that is refused although it would have done is asked
for once more, and costs a call. What stands in quotation marks or as code is not looked at.
"""

from __future__ import annotations

import re

_QUOTED = re.compile(
    r"`[^`]*`|\"[^\"]*\"|\u201c[^\u201d]*\u201d|\u201e[^\u201c]*\u201c|\u00ab[^\u00bb]*\u00bb"
)

# What a question may not point at. A name in between ("the Borea 2 manual") makes it stand alone.
_PARTS = "text|passage|excerpt|extract|snippet|paragraph|context|chunk|author|writer|speaker"
_WHOLES = (
    "document|article|section|chapter|page|paper|report|manual|handbook|guide|table|figure|chart"
    "|graph|diagram|image|list|example|code|equation|formula|information|data|content|source"
    "|statement|description"
)
_TEXT = rf"(?:{_PARTS})s?"
_THING = rf"(?:{_PARTS}|{_WHOLES})s?"
_SAYS = (
    r"(?:sa(?:y|id)|state|mention|describe|explain|discuss|refer|provide|give|recommend|suggest"
    r"|argue|claim|note|list|show|define|specif|indicat|identif|mean|emphasi|propose|report|tell"
    r"|outline|present|advise|warn|compare|conclude)\w*"
)
_SHOWN = r"(?:mentioned|described|discussed|listed|shown|stated|given|provided|outlined|referenced)"
# "of the passage", but not "of the passage of the bill", nor "of the text field".
_ENDS = (
    r"(?=\s*(?:[,;:.?)!\uff1f]|$)"
    rf"|\s+(?:above|below|about|provided|given|that|which|{_SAYS})\b)"
)
_HERE = r"(?:above|below|given|provided|following|preceding|previous|present|aforementioned)"
_HELPS = (
    r"(?:long|often|much|many|far|old|does|do|did|is|are|was|were|has|have|had|can|could|should"
    r"|must|may|might|will|would|else)"
)

_ENGLISH = (
    rf"\b(?:according\s+to|based\s+on|as\s+per|per)\s+the\s+(?:{_HERE}\s+)?{_THING}\b{_ENDS}",
    rf"\bthe\s+{_HERE}\b",
    rf"\b(?:in|from|of|by|within|under|on|has|does|do|did|is|are|can|could|would)\s+the\s+{_TEXT}{_ENDS}",
    rf"\b(?:in|from|within|on|does|do|did)\s+the\s+{_THING}{_ENDS}",
    rf"\b(?:above|preceding|aforementioned)\s+{_THING}\b",
    rf"\b{_THING}\s+(?:above|below)\b",
    r"\b(?:table|figure|fig\.|chart|exhibit|listing)\s+\d+(?:\.\d+)*\b(?!\s+(?:of|in)\b)",
    rf"\b{_SHOWN}\s*(?:(?:above|below|here|in\s+the\s+{_THING})\s*)?\?",
    r"\bthis\b(?!\s+(?:year|month|week|quarter|season|century|decade)\b)",
    r"\bthese\b(?!\s+days\b)",
    r"\bwhich\s+of\s+those\b",
    (
        rf"^\W*(?:what|when|where|why|how|who|which|whom|whose)(?:\s+{_HELPS}){{1,3}}"
        r"\s+(?:he|she|they|them|him|her|his|their|its)\b"
    ),
)
_OTHER_LANGUAGES = (
    (
        r"\b(?:laut|gem\u00e4\u00df|nach)\s+(?:(?:dem|der)\s+)?(?:(?:obig|vorliegend)en\s+)?"
        r"(?:text(?:es)?|dokument|abschnitt|passage|autor(?:in)?|tabelle)\b"
    ),
    (
        r"\b(?:im|in\s+de[rm]|aus\s+de[rm])\s+(?:(?:obig|vorliegend|folgend)e[nmr]\s+)?"
        r"(?:text|textabschnitt|abschnitt|passage|dokument)"
        r"(?=\s*[?,]|\s+(?:erw\u00e4hnt|genannt|beschrieben)|$)"
    ),
    r"\bdiese[mrsn]?\s+(?:text|dokument|abschnitt|passage|tabelle|artikel)\w*",
    (
        r"\b(?:selon|d'apr\u00e8s|dans)\s+(?:le\s|la\s|cet?\s|cette\s|l')\s*"
        r"(?:texte|document|passage|auteure?|article|extrait|tableau)\b(?!\s+(?:de|du|des|\d))"
    ),
    (
        r"\b(?:seg\u00fan|en)\s+(?:el|la|este|esta)\s+"
        r"(?:texto|documento|pasaje|autora?|art\u00edculo|extracto|tabla|fragmento)\b"
        r"(?!\s+(?:de|del|\d))"
    ),
    (
        "(?:\u6839\u636e|\u6309\u7167|\u4f9d\u636e)(?:\u672c|\u4e0a|\u8be5|\u6b64|\u4ee5\u4e0a|\u4e0a\u8ff0)?"
        "(?:\u6587|\u6bb5|\u8d44\u6599|\u6750\u6599)"
    ),
    "\u672c\u6587|\u6587\u4e2d|\u4e0a\u6587|\u4e0a\u8ff0|\u4e0b\u5217|\u4f5c\u8005\u8ba4\u4e3a",
    "\u3053\u306e(?:\u6587\u7ae0|\u8cc7\u6599|\u8868)",
)
_POINTS = re.compile(
    "|".join(f"(?:{one})" for one in (*_ENGLISH, *_OTHER_LANGUAGES)), re.IGNORECASE
)


def points_elsewhere(question: str) -> str | None:
    """The words of a question that point at a text outside of it; None where it stands alone."""
    found = _POINTS.search(_QUOTED.sub(" ", question))
    return None if found is None else " ".join(found.group().split())
