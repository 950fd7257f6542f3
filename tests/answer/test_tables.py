import pytest

from rag_cluster.answer.sentences import split_units
from rag_cluster.answer.tables import cells, read_row


def read(text: str, header: str = "") -> list[str]:
    units = split_units(text)
    return [
        read_row(text, units, number, header)
        for number, unit in enumerate(units)
        if unit.kind == "row"
    ]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("| a | b |", ["a", "b"]),
        ("| a | |", ["a", ""]),
        (r"| a \| b | c |", [r"a \| b", "c"]),
        ("Net income\t488\t402", ["Net income", "488", "402"]),
        ("Net income     488     402", ["Net income", "488", "402"]),
        ("a | b", ["a", "b"]),
    ],
)
def test_cells(row, expected):
    assert cells(row) == expected


def test_a_row_is_read_with_its_header_cells_and_the_header_is_no_row():
    assert read("| Model | Weight |\n|---|---|\n| R7 | 310 g |") == [
        "",
        "Model: R7; Weight: 310 g",
    ]


def test_the_repeated_header_of_a_split_table():
    header = "| Model | Weight |\n|---|---|\n"
    assert read("| R7 | 310 g |", header) == ["Model: R7; Weight: 310 g"]


def test_a_header_with_one_cell_less_leaves_the_row_its_name():
    assert read("2023\t2022\nNet income\t488\t402") == ["", "Net income; 2023: 488; 2022: 402"]


def test_without_a_header_the_cells_stand_in_a_row():
    assert read("Net income\t488\t402\nTax\t50\t40") == ["Net income, 488, 402", "Tax, 50, 40"]


def test_two_columns_of_words_are_names_and_values():
    assert read("Product\tRecorder\nWeight\t310 g") == ["Product, Recorder", "Weight, 310 g"]


def test_a_first_row_of_words_over_numbers_is_a_header():
    assert read("Model\tWeight\tPrice\nR7\t310\t249")[1] == "Model: R7; Weight: 310; Price: 249"
