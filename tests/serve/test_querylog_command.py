"""`rag-cluster logs` from end to end: a service writes, the command reads."""

import json

import httpx2 as httpx
import pytest
from stand_in import app_with, running, settled

from rag_cluster.cli import run
from rag_cluster.evaluate.datasets import read_qrels, read_queries


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The log of a service with its text, and one damaged line."""
    folder = tmp_path_factory.mktemp("service") / "log"
    config = settled(f"service.log.folder={folder}", "service.log.text=true")
    with running(app_with(config)) as url:
        for query in ("the mast", "nothing", "fail", "evil \x1b[31mred"):
            httpx.post(f"{url}/v1/search", json={"query": query})
        httpx.post(f"{url}/v1/ask", json={"question": "Where does the mast stand?"})
    with next(folder.glob("*.jsonl")).open("a") as file:
        file.write('{"id": "cut o\n')
    return str(folder)


def told(capsys, *arguments):
    code = run(["logs", *arguments])
    out = capsys.readouterr()
    return code, out.out.splitlines(), out.err


def test_lines_for_people(folder, capsys):
    code, lines, error = told(capsys, folder)
    assert code == 0
    assert len(lines) == 5
    assert "search 200" in lines[0]
    assert lines[0].endswith("2 hits  anonymous  the mast")
    assert lines[2].endswith("anonymous  model_failed: fail")
    assert "\x1b" not in lines[3]
    assert "1 damaged lines were skipped" in error


def test_lines_for_programs(folder, capsys):
    _, lines, _ = told(capsys, folder, "--json", "--status", "5xx")
    (found,) = map(json.loads, lines)
    assert found["question"] == "fail"
    _, lines, _ = told(capsys, folder, "--empty", "--since", "1h", "--json")
    assert [json.loads(one)["question"] for one in lines] == ["nothing"]
    _, lines, _ = told(capsys, folder, "--since", "2999-01-01", "--json")
    assert lines == []


def test_summary(folder, capsys):
    _, lines, _ = told(capsys, folder, "--summary")
    text = "\n".join(lines)
    assert "5 queries, 5 different questions, 1 errors, 1 found nothing" in text
    assert "by status: 200 4, 502 1" in text
    assert any(line.startswith("encode ") for line in lines)
    _, lines, error = told(capsys, folder, "--summary", "--json")
    report = json.loads("".join(lines))
    assert (report["queries"], report["damaged"], error) == (5, 1, "")


def test_an_evaluation_set(folder, capsys, tmp_path):
    _, lines, _ = told(capsys, folder, "--to-queries", str(tmp_path / "set"))
    text = "\n".join(lines)
    assert "4 queries in" in text
    assert "1 silver judgements of 1 queries" in text
    assert "judged by nobody" in text
    assert len(read_queries(tmp_path / "set/queries.jsonl")) == 4
    assert [qrel.corpus_id for qrel in read_qrels(tmp_path / "set/qrels.tsv")] == ["d1"]


@pytest.mark.parametrize(
    "odd",
    [
        '"question": "\\ud800 x"', '"timings_ms": null', '"cited": [null]', '"seconds": NaN',
        '"time": "0001-01-01T00:00:00+14:00"',
    ],
)  # fmt: skip
def test_an_odd_line_is_damaged_whatever_is_asked(folder, capsys, tmp_path, odd):
    (whole,) = told(capsys, folder, "--route", "ask", "--json")[1]
    path = tmp_path / "queries-other.1.jsonl"
    path.write_text(f"{whole}\n{whole[:-1]}, {odd}}}\n")  # of a name's values the last one counts
    for options in ((), ("--json",), ("--summary",), ("--to-queries", str(tmp_path / "set"))):
        code, lines, error = told(capsys, str(tmp_path), *options)
        assert code == 0
        assert lines
        assert error == "rag-cluster: 1 damaged lines were skipped\n"


def test_mistakes_are_one_line(folder, capsys, tmp_path):
    judged = tmp_path / "judged"
    judged.mkdir()
    (judged / "unjudged.tsv").touch()
    for arguments, message in (
        ((str(tmp_path),), "holds no query log"),
        ((folder, "--since", "soon"), "is no time"),
        ((folder, "--since", "99999999999d"), "is no time"),
        ((folder, "--to-queries", str(judged)), "exists: name another folder"),
        ((folder, "--status", "bad"), "give a number"),
        ((folder, "--summary", "--to-queries", str(tmp_path)), "one at a time"),
    ):
        code, lines, error = told(capsys, *arguments)
        assert (code, lines) == (2, [])
        assert message in error
        assert "Traceback" not in error
