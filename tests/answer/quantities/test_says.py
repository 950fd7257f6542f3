"""When a passage says a number of an answer."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.answer.quantities import Quantity, Reading, read, says


def said(answer: str, passage: str, caption: str = "") -> bool:
    [asked] = read(answer)
    return any(says(known, asked) for known in read(passage, caption=caption))


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("$1.2 billion", "1,200 million dollars"),
        ("$1.2 billion", "$1,234 million"),  # rounded: 1.234 lies within .05 of 1.2
        ("about 1,200", "1,234 people"),  # the zeros are not known: within 50, and 10 %
        ("more than 800", "846 samples"),
        ("nearly 40 %", "39.2 percent"),
        ("95 %", "a recall of .95"),
        (".95", "95 %"),
        ("3 days", "72 hours"),
        ("2 years", "24 months"),
        ("2021", "12 March 2021"),
        ("March 2021", "2021-03-12"),
        ("2,020", "in 2020"),
        ("12", "12 %"),
        ("a loss of 3.4", "$(3.4)"),
        ("it fell by 3.4 %", "-3.4 %"),
    ],
)
def test_said(answer, passage):
    assert said(answer, passage)


@pytest.mark.parametrize(
    ("answer", "passage"),
    [
        ("$1.2 million", "1,200 million dollars"),
        ("€45", "45 dollars"),
        ("$1.3 billion", "$1,234 million"),
        ("$1.234 billion", "$1.2 billion"),
        ("3 percent", "3.4 percent"),  # half a digit, but more than 5 % of it
        ("about 1,500", "1,234 people"),
        ("2 percent", "2 percentage points"),
        ("12 %", "12 turbines"),
        ("72 days", "72 hours"),
        ("14 March 2021", "March 2021"),
        ("4:1", "3:1"),
        ("20 °C", "-20 °C"),
        ("a gain of 45", "| Result | (45) |"),
        ("1,234 people", "about 1,200 people"),
        ("0.3", "30 cm"),
    ],
)
def test_not_said(answer, passage):
    assert not said(answer, passage)


def test_a_scale_declared_above_must_be_in_the_answer():
    row, caption = "| Capital expenditure | 1,577 |", "(in millions of dollars)"
    assert said("$1,577 million", row, caption)
    assert said("$1.58 billion", row, caption)
    assert said("1,577", row, caption)
    assert not said("$1,577", row, caption)


def test_equal_values_round_and_hedge_by_the_formula():
    def answer(value: str, step: str, coarse: str, hedge: str = "") -> Quantity:
        reading = Reading(Fraction(value), "kg", Fraction(step), Fraction(coarse))
        return Quantity(0, 1, value, (reading,), hedge=hedge)

    def passage(value: str) -> Quantity:
        return Quantity(0, 1, value, (Reading(Fraction(value), "kg"),))

    # |known - asked| <= min(step / 2, 5 %)
    assert says(passage("12.54"), answer("12.5", "0.1", "0.1"))
    assert says(passage("12.55"), answer("12.5", "0.1", "0.1"))
    assert not says(passage("12.56"), answer("12.5", "0.1", "0.1"))
    assert not says(passage("1.3"), answer("1", "1", "1"))
    # about: |known - asked| <= min(coarse / 2, 10 %)
    assert says(passage("1250"), answer("1200", "1", "100", "about"))
    assert not says(passage("1251"), answer("1200", "1", "100", "about"))
    assert not says(passage("1101"), answer("1000", "1", "1000", "about"))
    # over and under: within one unit of the last known digit, on the side that is said
    assert says(passage("1299"), answer("1200", "1", "100", "over"))
    assert not says(passage("1300"), answer("1200", "1", "100", "over"))
    assert not says(passage("1199"), answer("1200", "1", "100", "over"))
    assert says(passage("1101"), answer("1200", "1", "100", "under"))


numbers = st.integers(1, 999_999)
decimals = st.integers(0, 99)


def ways(whole: int, hundredths: int) -> list[str]:
    """One number of dollars, written in several ways."""
    grouped = f"{whole:,}"
    return [
        f"${grouped}.{hundredths:02d}",
        f"USD {whole}.{hundredths:02d}",
        f"{grouped}.{hundredths:02d} US dollars",
        f"{grouped.replace(',', '.')},{hundredths:02d} USD",
        f"$ {grouped.replace(',', chr(0x2019))}.{hundredths:02d}",
    ]


@given(numbers, decimals, numbers, decimals)
def test_the_way_a_number_is_written_changes_nothing(one, cents, other, more):
    verdicts = {
        said(answer, f"It costs {passage} in all.")
        for answer in ways(one, cents)
        for passage in ways(other, more)
    }
    assert len(verdicts) == 1
    assert all(said(answer, passage) for answer in ways(one, cents) for passage in ways(one, cents))


@given(numbers, st.sampled_from([("thousand", 3), ("million", 6), ("billion", 9)]))
def test_a_scale_word_is_its_zeros(number, scale):
    word, power = scale
    assert said(f"${number} {word}", f"${number * 10**power:,}")
    assert said(f"${number * 10**power:,}", f"${number} {word}")


@given(numbers, decimals)
def test_reading_what_was_read_gives_the_same(whole, hundredths):
    for text in ways(whole, hundredths):
        [first] = read(text)
        [again] = read(first.said)
        assert again.readings == first.readings
        assert (again.start, again.end) == (0, len(first.said))
