import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster.answer.sentences import first_sentences, guess_language, split_units


def pieces(text: str) -> list[tuple[str, str]]:
    return [(unit.kind, text[unit.start : unit.end]) for unit in split_units(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dr. Smith came. It costs 3.5 V.", ["Dr. Smith came.", "It costs 3.5 V."]),
        (
            "Das kostet z.B. 3,5 Euro und nicht mehr. Am 3. Mai ist der Tag.",
            ["Das kostet z.B. 3,5 Euro und nicht mehr.", "Am 3. Mai ist der Tag."],
        ),
        ("电池可用十小时。充电要两小时。", ["电池可用十小时。", "充电要两小时。"]),
        (
            "電池は十時間もちます。充電は二時間です。",
            ["電池は十時間もちます。", "充電は二時間です。"],
        ),
        ("A line that runs\non. Then another.", ["A line that runs\non.", "Then another."]),
    ],
)
def test_sentences_of_several_languages(text, expected):
    assert pieces(text) == [("sentence", sentence) for sentence in expected]


def test_markdown_stays_whole():
    text = (
        "# Battery\n\nIt lasts. Long.\n\n| Model | Hours |\n|---|---|\n| X1 | 10. Or so. |\n\n"
        "- First item.\n- Second item\n\n$$\nE = m. c\n$$\n\n```\na. b. c.\n```\nEnd."
    )
    assert pieces(text) == [
        ("heading", "# Battery"),
        ("sentence", "It lasts."),
        ("sentence", "Long."),
        ("row", "| Model | Hours |"),
        ("rule", "|---|---|"),
        ("row", "| X1 | 10. Or so. |"),
        ("sentence", "First item."),
        ("sentence", "Second item"),
        ("block", "$$\nE = m. c\n$$"),
        ("block", "```\na. b. c.\n```"),
        ("sentence", "End."),
    ]


def test_a_short_line_without_a_stop_is_a_heading_and_a_wrapped_line_is_not():
    assert pieces("3.2 Operating conditions\nThe device works up to 40 degrees in dry air.")[0] == (
        "heading",
        "3.2 Operating conditions",
    )
    wrapped = "The device works up to\n40 degrees in dry air."
    assert pieces(wrapped) == [("sentence", wrapped)]


def test_rows_whose_cells_stand_apart():
    text = "Net revenue\t4,310\t3,850\nNet income     488     402"
    assert [kind for kind, _ in pieces(text)] == ["row", "row"]


def test_white_space_that_sentencex_cannot_read():
    assert [piece for _, piece in pieces("A.\u2003B\u00a0left. Then C.")][-1] == "Then C."


def test_language_by_script_and_by_common_words():
    assert guess_language("The end of the day is near") == "en"
    assert guess_language("Das ist nicht der Anfang") == "de"
    assert guess_language("한국어 문장입니다") == "ko"
    assert guess_language("") == "en"


def test_first_sentences():
    assert first_sentences("One. Two. Three.", 2) == "One. Two."
    assert first_sentences("", 2) == ""


@given(st.text(alphabet="aB .!?\n\t|-#$`5。é\u2003\u2028😀", max_size=80))
def test_units_are_ordered_disjoint_and_lose_no_word(text):
    end = 0
    for unit in split_units(text):
        assert end <= unit.start < unit.end <= len(text)
        assert not any(character.isalpha() for character in text[end : unit.start])
        assert text[unit.start : unit.end].strip() == text[unit.start : unit.end]
        end = unit.end
    assert not any(character.isalpha() for character in text[end:])
