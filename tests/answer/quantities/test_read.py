"""What is read as a number, and as which."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.answer.quantities import Day, read, without_numbers


def values(text: str, **given: str) -> list[tuple[str, float, str]]:
    """The first reading of each number: as said, value, unit."""
    found = read(text, **given)
    return [(q.said, float(q.readings[0].value), q.readings[0].unit) for q in found if q.readings]


def only(text: str) -> tuple[float, str]:
    [(_, value, unit)] = values(text)
    return value, unit


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("$1.2 billion", 1.2e9, "USD"),
        ("1.2bn USD", 1.2e9, "USD"),
        ("US$ 1,200 million", 1.2e9, "USD"),
        ("€5k", 5000, "EUR"),
        ("1.234 Mio. EUR", 1.234e6, "EUR"),
        ("12.5 %", 12.5, "%"),
        ("12.5 percent", 12.5, "%"),
        ("12.5 per cent", 12.5, "%"),
        ("2 percentage points", 2, "percentage points"),
        ("25 basis points", 0.25, "percentage points"),
        ("1.5x", 1.5, "ratio"),
        ("1.5 times", 1.5, "ratio"),
        ("3:1", 3, "ratio"),
        ("3 to 1", 3, "ratio"),
        ("90 minutes", 5400, "s"),
        ("14-day", 14 * 86400, "s"),
        ("14 full days", 14 * 86400, "s"),
        ("2 years", 24, "month"),
        ("4.5 tonnes", 4500, "kg"),
        ("60 litres per minute", 1, "l/s"),
        ("60 l/min", 1, "l/s"),
        ("-20 °C", -20, "°C"),
        ("\u221220 °C", -20, "°C"),
        ("14:30", 870, "time of day"),
        ("2:30 pm", 870, "time of day"),
        ("twenty-five hours", 90_000, "s"),
        ("two hundred and four thousand people", 204_000, "counted"),
        ("3 employees", 3, "counted"),
        ("3.", 3, ""),
        ("1.5 \u00d7 10^6", 1.5e6, ""),
        ("1.5e6", 1.5e6, ""),
        ("6½ hours", 6.5 * 3600, "s"),
        ("3/4", 0.75, ""),
        ("two thirds of", 2 / 3, ""),
        ("\uff11\uff12\uff0e\uff15\uff05", 12.5, "%"),
        ("1.2亿元", 1.2e8, "CNY"),
    ],
)
def test_a_number_and_its_unit(text, value, unit):
    found, its = only(text)
    assert (found, its) == (pytest.approx(value), unit)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", "1234.5"),
        ("1.234,5", "1234.5"),
        ("1'234.5", "1234.5"),
        ("1\u202f234,5", "1234.5"),
        ("1 234 567", "1234567"),
        ("1.234.567", "1234567"),
        ("1,23,456", "123456"),
        ("12,5", "12.5"),
        ("1,234", "1234"),
        ("1.234", "1.234"),
        ("0,125", "0.125"),
        (".95", "0.95"),
    ],
)
def test_separators(text, value):
    [number] = read(f"{text} kg")
    assert number.readings[0].value == Fraction(value)


def test_one_separator_before_three_digits_has_two_readings_where_a_decimal_comma_is_written():
    german = read("Der Anker und das Seil sind nicht mit 1.234 kg von der Werft.")
    assert {reading.value for reading in german[0].readings} == {1234, Fraction("1.234")}


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("12 March 2021", Day(2021, 3, 12)),
        ("March 12th, 2021", Day(2021, 3, 12)),
        ("2021-03-12", Day(2021, 3, 12)),
        ("12.03.2021", Day(2021, 3, 12)),
        ("12. März 2021", Day(2021, 3, 12)),
        ("2021年3月12日", Day(2021, 3, 12)),
        ("May 2019", Day(2019, 5)),
        ("12 March", Day(None, 3, 12)),
        ("FY23", Day(2023)),
        ("fiscal year 2023", Day(2023)),
        ("mid-2018", Day(2018)),
    ],
)
def test_dates(text, day):
    [number] = read(text)
    assert number.days == (day,)


def test_a_date_with_slashes_is_either_of_two_days():
    assert read("03/05/2021")[0].days == (Day(2021, 5, 3), Day(2021, 3, 5))
    assert read("25/12/2021")[0].days == (Day(2021, 12, 25),)


def test_a_span_of_years():
    assert read("2019-21")[0].days == (Day(2019), Day(2021))
    assert [q.days for q in read("2018\u20132020")] == [(Day(2018),), (Day(2020),)]


def test_a_year_with_a_unit_is_none():
    assert only("2000 kg") == (2000, "kg")
    assert only("EUR 2000") == (2000, "EUR")
    assert read("EUR 2000")[0].days == ()


@pytest.mark.parametrize(
    "text",
    [
        "COVID-19, GPT-4, ISO-9001, 10-K, 5G, utf8, R7",
        "version 1.2.3 at 192.168.0.1",
        "the 3rd place, on the 21st",
        "page 12, Figure 3, Table 2, Section 4.2, §7, #5",
        "as shown in [12] and [3, 4]【5】",
        "see https://example.com/2021/12 or a1@b2.org",
        "thousands of users, the first",
        "1. Open the lid\n2. Close it\n## 3.2 Scope",
    ],
)
def test_what_is_no_quantity(text):
    assert read(text) == []


def test_a_line_that_begins_with_a_number_is_no_item_by_that():
    assert only("The battery lasts\n14. hours") == (14, "")


def test_a_number_shares_the_unit_of_the_one_that_follows():
    for text in ("10\u201312 %", "10 to 12 percent", "10 or 12 %"):
        left = read(text)[0]
        assert (10, "%") in {(reading.value, reading.unit) for reading in left.readings}
    both = [{(r.value, r.unit) for r in q.readings} for q in read("$3-5 million")]
    assert (3_000_000, "USD") in both[0]
    three = read("2, 3 or 4 million")[0]
    assert 2_000_000 in {reading.value for reading in three.readings}


def test_a_table_in_millions():
    table = "| | 2018 |\n|---|---|\n| Capital expenditure | 1,577 |"
    [year, amount] = read(table, caption="Cash flow ($ in millions)")
    assert year.days == (Day(2018),)
    assert [(r.value, r.unit) for r in amount.readings] == [
        (1577, "no money"),
        (1_577_000_000, "USD"),
    ]


def test_a_header_and_a_row_name_with_a_unit():
    shares = read("| Mode | Share (%) |\n|---|---|\n| Rail | 18.5 |")[0]
    assert (18.5, "%") in {(float(r.value), r.unit) for r in shares.readings}
    weight = read("| Property | R5 |\n|---|---|\n| Weight (kg) | 290 |")[0]
    assert (290, "kg") in {(r.value, r.unit) for r in weight.readings}


def test_a_cell_in_brackets_may_be_negative_and_so_may_what_fell():
    [loss] = read("| Result | (45) |")
    assert loss.bracketed
    assert {reading.value for reading in loss.readings} == {45, -45}
    assert {r.value for r in read("a fall of 3.4 %")[0].readings} == {
        Fraction("3.4"),
        Fraction("-3.4"),
    }


def test_hedges():
    hedges = [q.hedge for q in read("about 5 kg, more than $5 million, nearly 30 %, 7 kg")]
    assert hedges == ["about", "over", "under", ""]


def test_a_text_without_its_numbers():
    text = "1. More than 800 samples, $5 million and 12 March 2021 [3]."
    assert without_numbers(text).split() == ["samples,", "and", "."]
    assert len(without_numbers(text)) == len(text)


@given(st.text(alphabet="0123456789.,:$%()-\u2013/ aekmx\n|", max_size=40))
def test_spans_are_ordered_disjoint_and_quote_the_text(text):
    end = 0
    for number in read(text):
        assert end <= number.start < number.end <= len(text)
        assert text[number.start : number.end] == number.said
        end = number.end
