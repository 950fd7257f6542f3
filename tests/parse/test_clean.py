from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.parse.clean import clean, one_line, scrub, tidy

any_text = st.text(alphabet=st.characters(codec=None, exclude_categories=[]), max_size=80)


@pytest.mark.parametrize(
    ("dirty", "cleaned"),
    [
        ("a\r\nb\rc\u2028d\fe", "a\nb\nc\nd\ne"),
        ("a\x00b\x07c\x9f\td", "abc\td"),
        ("\ufeffa\ufeff", "a"),
        ("lone \ud800 half", "lone \ufffd half"),
        ("pair \ud83d\ude00", "pair \U0001f600"),
        ("cafe\u0301", "caf\u00e9"),
        ("x\u00b2 \ufb01", "x\u00b2 \ufb01"),  # NFKC would make them x2 and fi
        ("soft\u00adhyphen", "softhyphen"),
    ],
)
def test_clean(dirty: str, cleaned: str) -> None:
    assert clean(dirty) == cleaned


def test_utf8_that_was_read_as_windows_1252_is_read_again() -> None:
    true = "Müllers café — naïve déjà vu, 25 € là"
    broken = true.encode("utf-8").decode("cp1252", "replace").replace("\ufffd", "\u00a0")
    assert clean(broken).startswith("Müllers café — naïve déj")
    assert clean("Ãœber") == "Ãœber"  # once may be meant


@given(any_text)
def test_clean_text_is_encodable_and_stays_as_it_is(text: str) -> None:
    once = clean(text)
    once.encode("utf-8")
    assert not set(once) & set(map(chr, range(9)))
    assert clean(once) == once


@given(any_text)
def test_scrub_keeps_every_position(text: str) -> None:
    scrubbed = scrub(text)
    assert len(scrubbed) == len(text)
    scrubbed.encode("utf-8")


def test_tidy_is_quick_on_long_runs_of_space() -> None:
    assert tidy("a" + " " * 2_000_000 + "b") == "a" + " " * 2_000_000 + "b"


def test_tidy_and_one_line() -> None:
    assert tidy("\n a  \nb\t\n\n\n\n\n c\n") == " a\nb\n\n\n c"
    assert one_line(" a\n\tb  c ") == "a b c"
