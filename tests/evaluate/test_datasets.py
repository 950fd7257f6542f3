import pytest

from rag_cluster.errors import DatasetError
from rag_cluster.evaluate.datasets import (
    Qrel,
    RunLine,
    read_qrels,
    read_queries,
    read_run,
    write_run,
)


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "file"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_queries_in_their_order(file):
    path = file(
        '\ufeff{"_id": "b", "text": "zwei Fälle", "answer": "x"}\n\n{"_id": 7, "text": "a"}\n'
    )
    assert list(read_queries(path).items()) == [("b", "zwei Fälle"), ("7", "a")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"_id": "a", "text": "x"}\n\n{"_id": \n', "line 3 is not JSON"),
        ("[1]\n", "line 1: a query is a JSON object, not a list"),
        ('{"text": "x"}\n', "line 1: a query needs its id"),
        ('{"_id": "a", "text": " "}\n', "line 1: query 'a' needs its words"),
        ('{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n', "line 2: .*'a' is there twice"),
        ("\n", "holds no queries"),
    ],
)
def test_queries_that_are_wrong(file, text, message):
    with pytest.raises(DatasetError, match=message):
        read_queries(file(text))


def test_a_file_that_is_absent_or_no_text(tmp_path):
    with pytest.raises(DatasetError, match=r"cannot read .*none"):
        read_queries(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DatasetError, match="not UTF-8"):
        read_qrels(tmp_path / "binary")


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tpage\tscore\nq\ta b.pdf\t3\t2\n",
        "Score\tPage\tCorpus-ID\tQuery-ID\n2\t3\ta b.pdf\tq\n",
        "corpus_id\tquery_id\tnote\trelevance\tpage\r\na b.pdf\tq\tn\t2\t3\r\n",
    ],
)
def test_qrels_columns_in_any_order(file, text):
    assert read_qrels(file(text)) == [Qrel("q", "a b.pdf", 3, 2)]


def test_qrels_without_pages(file):
    text = "query-id\tcorpus-id\tscore\n1\t184\t3\n1\t29\t0\n"
    assert read_qrels(file(text)) == [Qrel("1", "184", None, 3), Qrel("1", "29", None, 0)]


def test_an_empty_page_is_no_page(file):
    assert read_qrels(file("query-id\tcorpus-id\tpage\tscore\nq\ta\t\t1\n"))[0].page is None


def test_qrels_of_trec(file):
    assert read_qrels(file("q1 0 d1 1\nq2\t0\td2\t-1\n")) == [
        Qrel("q1", "d1", None, 1),
        Qrel("q2", "d2", None, -1),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no judgements"),
        ("query-id\tcorpus-id\tscore\n", "holds no judgements"),
        ("query-id\tcorpus-id\n", r"lacks \['score'\]"),
        ("query-id\tcorpus-id\tscore\nq\td\n", "line 2: 2 columns, but the header has 3"),
        ("query-id\tcorpus-id\tscore\n\nq\td\thigh\n", "line 3: a relevance is .*'high'"),
        ("query-id\tcorpus-id\tscore\nq\t\t1\n", "line 2: the corpus id is empty"),
        ("query-id\tcorpus-id\tpage\tscore\nq\td\t0\t1\n", "line 2: a page is .*'0'"),
        ("query-id\tcorpus-id\tscore\nq\td\t1\nq\td\t2\n", "line 3: 'd' was judged 1"),
        ("q d 1\n", "line 1: 3 columns; qrels have a header"),
    ],
)
def test_qrels_that_are_wrong(file, text, message):
    with pytest.raises(DatasetError, match=message):
        read_qrels(file(text))


def test_a_run_is_written_and_read_back(tmp_path):
    path = tmp_path / "run"
    write_run(
        path,
        {
            "q 1": [("my file.pdf", 3, 0.5), ("100%", None, 0.5)],
            "q2": [("https://host/a#part", None, 2.0), ("a#page=1", None, 1.0)],
        },
    )
    assert path.read_text().splitlines()[0] == "q%201 Q0 my%20file.pdf#page=3 1 0.5 rag-cluster"
    run = read_run(path)
    assert run["q2"] == [
        RunLine("q2", "https://host/a#part", None, 1, 2.0),
        RunLine("q2", "a#page=1", None, 2, 1.0),
    ]
    first, second = run["q 1"]
    assert (first.document, first.page, first.rank) == ("my file.pdf", 3, 1)
    assert (second.document, second.page, second.rank) == ("100%", None, 2)


def test_scores_of_a_run_fall_with_the_rank(tmp_path):
    path = tmp_path / "run"
    write_run(path, {"q": [("a", None, 0.5), ("b", None, 0.9), ("c", None, 0.9), ("d", None, 0.1)]})
    scores = [line.score for line in read_run(path)["q"]]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 4
    assert scores == pytest.approx([0.5, 0.5, 0.5, 0.1], abs=1e-4)


def test_a_run_that_cannot_be_written_or_read(tmp_path, file):
    with pytest.raises(DatasetError, match="cannot write the run"):
        write_run(tmp_path / "none" / "run", {})
    with pytest.raises(DatasetError, match="line 2: a run has six columns"):
        read_run(file("q Q0 d 1 0.5 tag\nq Q0 d one 0.5 tag\n"))
