"""Measuring spans of a text in tokens."""

from __future__ import annotations

from bisect import bisect_left

# WordPiece reads an unbroken run beyond a hundred characters as one unknown token. So that a page
# of base64 does not pass for a short text, a long token is counted once for so many characters.
LONG_TOKEN = 32


class Ruler:
    """Counts the tokens of any span of one text, from the positions of all its tokens.

    A token belongs to the span in which it starts. For tokenizers to which a space is a wall (BERT)
    the count of a span that starts and ends at words is exactly that of the span on its own.
    """

    def __init__(self, text: str, spans: list[tuple[int, int]]) -> None:
        self.length = len(text)
        self.starts: list[int] = []
        for start, end in spans:
            if end - start > 1 and text[start].isspace():
                # Byte-level tokenizers count the space before a word as a part of its token.
                inside = text[start : end - 1]
                start += len(inside) - len(inside.lstrip())  # noqa: PLW2901
            self.starts.append(start)
            if end - start > LONG_TOKEN:
                self.starts.extend(range(start + LONG_TOKEN, end, LONG_TOKEN))

    def count(self, start: int, end: int) -> int:
        """Tokens that start in [start, end)."""
        return bisect_left(self.starts, end) - bisect_left(self.starts, start)

    def reach(self, start: int, tokens: int) -> int:
        """The furthest end for which [start, end) has at most `tokens` tokens."""
        index = bisect_left(self.starts, start) + tokens
        return self.starts[index] if index < len(self.starts) else self.length

    def back(self, end: int, tokens: int) -> int:
        """The earliest start, at a token, for which [start, end) has at most `tokens` tokens."""
        index = bisect_left(self.starts, end)
        if tokens <= 0 or index == 0:
            return end
        return self.starts[max(0, index - tokens)]
