"""Whether a source supports a sentence."""

import pytest
from answer_samples import source
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.answer.evidence import claimed, said, supports, unsaid

KEY = source("The spare key K-95 hangs in the boiler room. It is not made of brass.")


def claims(text: str, question: str = "") -> list[str]:
    return [number.said for number in claimed(text, question)]


def test_numbers_in_code_are_no_claims_but_a_number_set_as_code_is():
    text = "Set `limit: 250`.\n```\nretries: 9\n```\nThe limit is `400`, the default 30."
    assert claims(text) == ["400", "30"]


def test_what_counts_things_named_before_is_no_claim_nor_is_one():
    text = "The two ferries and these 3 boats; one needs a permit. There are 2 piers and two docks."
    assert claims(text) == ["2", "two"]


def test_the_question_may_set_the_scale():
    table = source("| Capital expenditure | 1,577 |", section="Cash flow ($ in millions)")
    answer = "Capital expenditure was $1,577."
    assert unsaid(claimed(answer), [table])
    assert not unsaid(claimed(answer, "What was capital expenditure, in USD millions?"), [table])


def test_a_source_says_numbers_in_its_title_and_its_name():
    titled = source("Text.", title="Annual letter 2022")
    assert [number.said for number in said(titled)] == ["2022"]


def test_references_of_the_source_may_be_repeated():
    shown = source("As shown in [12].")
    assert not unsaid(claimed("As shown in (12)."), [shown])


def test_a_name_with_digits_must_be_there():
    assert supports(KEY, "The key K-95 hangs in the boiler room.")
    assert supports(KEY, "The key K95 hangs in the boiler room.")
    assert not supports(KEY, "The key K-96 hangs in the boiler room.")


def test_a_source_that_denies_a_sentence_does_not_support_it():
    assert supports(KEY, "It is not made of brass.")
    assert not supports(KEY, "It is made of brass.")
    assert not supports(KEY, "The spare key does not hang in the boiler room.")


def test_words_are_compared_by_their_stems():
    assert supports(KEY, "Spare keys hang in boiler rooms.")


PIECES = [
    "The fee was $1.2 billion in 2021. ", "It rose by 12.5 % to 1,234. ", "A ratio of 3:1. ",
    "On 12 March 2021 at 14:30. ", "(3.4) and -7 °C. ", "1. First, two thirds of users.\n",
    "| Item | 2021 |\n|---|---|\n| Cost (kg) | (45) |\n", "[3] 10 to 12 km ",
    "in millions ", "\n\n",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8), st.data())
def test_an_answer_that_quotes_a_passage_is_grounded(pieces, data):
    start = data.draw(st.integers(0, len(pieces) - 1))
    end = data.draw(st.integers(start + 1, len(pieces)))
    answer = "".join(pieces[start:end])
    assert unsaid(claimed(answer), [source("".join(pieces))]) == []


@pytest.mark.parametrize("sentence", ["", "   ", "The.", "!?"])
def test_a_sentence_that_says_nothing_is_supported_by_nothing(sentence):
    assert not supports(KEY, sentence)
