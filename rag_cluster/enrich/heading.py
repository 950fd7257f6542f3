"""Where a chunk comes from, in a line: name, title and section path.

A fragment such as "The increase was due to pricing." is found by nobody; with the document's title
and the section path in front it is.
"""

from __future__ import annotations

from bisect import bisect_right

from rag_cluster.models.tokenizer import Tokenizer

SEPARATOR = " > "


def heading_context(name: str, title: str, path: str, most: int, tokenizer: Tokenizer) -> str:
    """`name > title > path`, in at most `most` tokens; `name` is what the file's name adds, or "".

    A title that the path begins with is not said twice. What is too long keeps its two ends: the
    name or title says which document, the innermost heading which place. If those are still too
    long, the longer one is cut at a word until both fit.
    """
    parts = [part for part in (" ".join(p.split()) for p in path.split(SEPARATOR)) if part]
    title = " ".join(title.split())
    if title and (not parts or parts[0].casefold() != title.casefold()):
        parts.insert(0, title)
    if name:
        parts.insert(0, name)
    if len(parts) > 2 and _count(SEPARATOR.join(parts), tokenizer) > most:
        del parts[1:-1]
    if not parts or _count(SEPARATOR.join(parts), tokenizer) <= most:
        return SEPARATOR.join(parts)
    if len(parts) == 1:
        return _shorten(parts[0], most, tokenizer)
    first, last = parts
    room = most - _count(SEPARATOR.strip(), tokenizer)
    place = _shorten(last, max(room // 2, room - _count(first, tokenizer)), tokenizer)
    name = _shorten(first, room - _count(place, tokenizer), tokenizer)
    return SEPARATOR.join(part for part in (name, place) if part)


def _count(text: str, tokenizer: Tokenizer) -> int:
    return tokenizer.count([text])[0]


def _shorten(text: str, most: int, tokenizer: Tokenizer) -> str:
    """The beginning of the text, up to a word where it can be, in at most `most` tokens."""
    spans = tokenizer.spans(text)
    if len(spans) <= most:
        return text
    words = [index + 1 for index, character in enumerate(text) if character == " "]
    end = spans[most][0]
    while end > 0:
        index = bisect_right(words, end) - 1
        cut = text[: words[index] if index >= 0 else end].rstrip()
        if _count(cut, tokenizer) <= most:
            return cut
        end = len(cut) - 1
    return ""
