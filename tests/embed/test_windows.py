from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.embed.windows import windows_around
from rag_cluster.models.tokenizer import WordTokenizer

TOKENIZER = WordTokenizer()
TEXT = " ".join(f"w{number:02}" for number in range(60))  # token n is at [4n, 4n + 3)


def at(first: int, after: int) -> tuple[int, int]:
    """The span of the words [first, after)."""
    return 4 * first, 4 * after - 1


def test_a_text_that_fits_is_one_window() -> None:
    text = f"  {TEXT} \n"
    windows = windows_around(text, [(2, 5), (10, 241)], TOKENIZER, 60, 10)
    assert windows == [(2, 241), (2, 241)]


def test_windows_overlap_and_the_last_one_is_full() -> None:
    spans = [at(0, 4), at(14, 18), at(32, 36), at(56, 60)]
    # Windows of 20 words begin at 0, 15, 30 and, so that the last one is full, at 40.
    assert windows_around(TEXT, spans, TOKENIZER, 20, 5) == [
        at(0, 20),
        at(0, 20),
        at(30, 50),
        at(40, 60),
    ]


def test_a_span_is_read_where_it_is_farthest_from_an_edge() -> None:
    # In windows of the words 0-20, 10-30, 20-40, 30-50 and 40-60.
    nearest = {
        at(12, 14): at(0, 20),  # 6 words behind it; nothing is lost before it, the text begins
        at(16, 18): at(10, 30),
        at(42, 45): at(30, 50),
        at(1, 3): at(0, 20),
        at(55, 58): at(40, 60),
    }
    assert windows_around(TEXT, list(nearest), TOKENIZER, 20, 10) == list(nearest.values())


def test_a_span_across_all_windows_is_the_middle_of_its_own() -> None:
    assert windows_around(TEXT, [at(16, 30)], TOKENIZER, 20, 2) == [at(13, 33)]


def test_what_is_larger_than_a_window_is_its_own() -> None:
    assert windows_around(TEXT, [at(3, 40)], TOKENIZER, 20, 5) == [at(3, 40)]


def test_a_text_that_has_more_tokens_alone_ends_earlier() -> None:
    class Odd(WordTokenizer):
        """Counts one token more for a text that does not begin with w00."""

        def count(self, texts):
            counts = super().count(texts)
            return [n + (not t.startswith("w00")) for n, t in zip(counts, texts, strict=True)]

    (window,) = windows_around(TEXT, [at(32, 33)], Odd(), 20, 5)
    assert window == at(30, 49)


def test_a_blank_text_has_an_empty_window() -> None:
    assert windows_around(" \n", [], TOKENIZER, 20, 5) == []


@given(
    st.lists(st.sampled_from(["a", "bc", "日本", "x.", "\n"]), max_size=120).map(" ".join),
    st.integers(4, 40),
    st.data(),
)
def test_every_span_that_fits_is_inside_of_its_window(text, room, data) -> None:
    overlap = data.draw(st.integers(0, room - 1))
    tokens = TOKENIZER.spans(text)
    spans = []
    for _ in range(data.draw(st.integers(0, 5)) if tokens else 0):
        first = data.draw(st.integers(0, len(tokens) - 1))
        last = data.draw(st.integers(first, min(len(tokens) - 1, first + room - 1)))
        spans.append((tokens[first][0], tokens[last][1]))
    windows = windows_around(text, spans, TOKENIZER, room, overlap)
    for (start, end), (a, b) in zip(spans, windows, strict=True):
        assert 0 <= a <= start < end <= b <= len(text)
        assert TOKENIZER.count([text[a:b]])[0] <= room
        assert text[a:b] == text[a:b].strip()


@pytest.mark.parametrize("overlap", [0, 5, 19])
def test_a_long_text_is_read_from_end_to_end(overlap: int) -> None:
    windows = set(windows_around(TEXT, [at(n, n + 1) for n in range(60)], TOKENIZER, 20, overlap))
    read = {place for start, end in windows for place in range(start, end)}
    assert all(place in read or TEXT[place] == " " for place in range(len(TEXT)))
