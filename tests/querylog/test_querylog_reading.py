"""Reading logs of several replicas: order, selection, damage, figures, evaluation sets."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from rag_cluster.errors import UsageError
from rag_cluster.evaluate.datasets import read_qrels, read_queries
from rag_cluster.querylog import Log, Selection
from rag_cluster.querylog.selection import moment
from rag_cluster.querylog.silver import to_queries
from rag_cluster.querylog.summary import summary

START = datetime(2026, 1, 31, 8, tzinfo=UTC)


def line(second, **known):
    """A line that ended so many seconds after the start."""
    return {
        "id": f"q{second}", "time": (START + timedelta(seconds=second)).isoformat(),
        "route": "search", "key": "acme", "status": 200, "code": None, "seconds": 0.1, "hits": 2,
        "timings_ms": {"encode": 4.0, "total": 10.0}, "chunks": [],
        "question": f"Question {second}?",
    } | known  # fmt: skip


def write(path, *lines):
    path.write_text("".join(
        (one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines
    ))  # fmt: skip


def seconds(log, selection=None):
    chosen = selection or Selection()
    return [int(row["id"][1:]) for time, row in log if chosen.takes(time, row)]


def test_files_of_all_replicas_are_merged_by_time(tmp_path):
    write(tmp_path / "queries-a.9.jsonl", line(1), line(4))
    write(tmp_path / "queries-a.10.jsonl", line(6))
    write(tmp_path / "queries-b.c-2.1.jsonl", line(2), line(5), line(7))
    write(tmp_path / "other.jsonl", line(3))
    log = Log(tmp_path)
    assert seconds(log) == [1, 2, 4, 5, 6, 7]
    assert log.damaged == 0


def test_damaged_lines_are_counted_and_skipped(tmp_path):
    write(
        tmp_path / "queries-a.1.jsonl",
        line(1), '{"id": "cut o', "", "[1]", "7", '{"id": "q", "time": "today"}',
        json.dumps(line(2) | {"status": "200"}), json.dumps({**line(3), "time": 5}), "[" * 99_999,
        line(4),
    )  # fmt: skip
    with (tmp_path / "queries-a.1.jsonl").open("ab") as file:
        file.write(b"\xff\xfe\x00\n")
    log = Log(tmp_path)
    assert seconds(log) == [1, 4]
    assert log.damaged == 8


@pytest.mark.parametrize(
    "odd",
    [
        {"question": 5}, {"question": None}, {"question": "\ud800 x"}, {"extra": ["\udfff"]},
        {"timings_ms": None}, {"timings_ms": [1]}, {"timings_ms": {"total": "x"}},
        {"timings_ms": {"total": 1e999}}, {"first_token_ms": None}, {"guardrails": {"length": 1}},
        {"seconds": float("nan")}, {"seconds": 10**400}, {"seconds": 1e308}, {"seconds": True},
        {"time": "0001-01-01T00:00:00+14:00"}, {"time": "9999-12-31T23:59:59-14:00"},
        {"status": 7}, {"hits": "2"}, {"hits": float("inf")}, {"options": {"filter": "all"}},
        *({name: value} for name in ("cited", "chunks")
          for value in (None, 5, [None], [{"chunk_id": 5}])),
        {"cited": [{"doc_id": "d\t1", "uri": "a", "page": 1}]},
        {"cited": [{"doc_id": "d1", "uri": "a", "page": 0}]},
        {"chunks": [{"doc_id": "d1", "uri": "a", "pages": []}]},
    ],
    ids=str,
)  # fmt: skip
def test_a_line_with_an_odd_value_is_damaged(tmp_path, odd):
    write(tmp_path / "queries-a.1.jsonl", line(1), line(2, **odd))
    log = Log(tmp_path)
    assert seconds(log) == [1]
    assert log.damaged == 1


def test_a_line_may_hold_whole_numbers_and_what_is_not_known_here(tmp_path):
    rows = [
        line(1, seconds=1, timings_ms={"total": 3}, first_token_ms=2, more={"any": [None]}),
        {name: line(2)[name] for name in ("id", "time", "route", "status", "seconds")},
    ]
    write(tmp_path / "queries-a.1.jsonl", *rows)
    log = Log(tmp_path)
    assert [row for _, row in log] == rows
    assert log.damaged == 0
    assert summary(iter(log))["stages_ms"]["request"]["p99"] == pytest.approx(991)


def test_a_folder_without_a_log_is_a_mistake(tmp_path):
    with pytest.raises(UsageError, match=r"holds no query log .*service\.log\.folder"):
        Log(tmp_path)
    with pytest.raises(UsageError, match=r"cannot read the query log in .*absent"):
        Log(tmp_path / "absent")


def test_selections(tmp_path):
    write(
        tmp_path / "queries-a.1.jsonl",
        line(0), line(1, route="ask"), line(2, status=504, code="deadline_exceeded"),
        line(3, key="other"), line(4, seconds=1.5), line(5, hits=0), line(6, status=401, hits=None),
    )  # fmt: skip
    log = Log(tmp_path)
    assert seconds(log, Selection(since=START + timedelta(seconds=4))) == [4, 5, 6]
    assert seconds(log, Selection(route="ask")) == [1]
    assert seconds(log, Selection(status="504")) == [2]
    assert seconds(log, Selection(status="5xx")) == [2]
    assert seconds(log, Selection(status="error")) == [2, 6]
    assert seconds(log, Selection(key="other")) == [3]
    assert seconds(log, Selection(slower_than_ms=1000)) == [4]
    assert seconds(log, Selection(empty=True)) == [5]
    assert seconds(log, Selection(route="ask", empty=True)) == []
    for wrong in ("9xx", "50", "fine"):
        with pytest.raises(UsageError, match="status"):
            Selection(status=wrong)


def test_since_is_a_time_or_how_long_ago():
    now = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=1)))
    assert moment("90s", now) == now - timedelta(seconds=90)
    assert moment("2h", now) == now - timedelta(hours=2)
    assert moment("1.5d", now) == now - timedelta(hours=36)
    assert moment("2026-01-31T08:00+00:00", now) == START
    assert moment("2026-01-31", now) == datetime(2026, 1, 31).astimezone()
    for wrong in (
        "yesterday", "99999999999d", f"{'9' * 33}h", f"{'9' * 400}s",
        "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00",
    ):  # fmt: skip
        with pytest.raises(UsageError, match="is no time"):
            moment(wrong, now)


def test_summary_has_counts_and_percentiles(tmp_path):
    rows = [
        line(n, seconds=(n + 1) / 1000, timings_ms={"encode": float(n)}, question="same")
        for n in range(101)
    ]
    rows[7] |= {"status": 502, "route": "ask", "timings_ms": {}}
    rows[9]["timings_ms"]["first_token"] = 9.0  # counted from the prompt
    rows[8] |= {"hits": 0, "question": "Another?", "first_token_ms": 30.0}
    write(tmp_path / "queries-a.1.jsonl", *rows)
    found = summary(iter(Log(tmp_path)))
    assert (found["queries"], found["questions"]) == (101, 2)
    assert (found["errors"], found["empty"]) == (1, 1)
    assert found["by"]["route"] == {"search": 100, "ask": 1}
    assert found["stages_ms"]["request"] == {"count": 101, "p50": 51.0, "p95": 96.0, "p99": 100.0}
    assert found["stages_ms"]["encode"]["count"] == 100
    assert list(found["stages_ms"]) == ["request", "encode", "first_token"]
    assert found["stages_ms"]["first_token"]["p99"] == 30.0
    assert found["first"] == START.isoformat()
    assert found["last"] == (START + timedelta(seconds=100)).isoformat()


def test_a_summary_of_nothing(tmp_path):
    write(tmp_path / "queries-a.1.jsonl")
    found = summary(iter(Log(tmp_path)))
    assert (found["queries"], found["first"], found["stages_ms"]) == (0, None, {})


def chunk(doc, page):
    pages = None if page is None else [page, page + 1]
    return {"chunk_id": f"{doc}-{page}", "doc_id": doc, "uri": f"/docs/{doc} a.pdf", "pages": pages}


def citation(doc, page):
    return {"chunk_id": "c", "doc_id": doc, "uri": f"/docs/{doc} a.pdf", "page": page}


def test_cited_places_become_silver_judgements_and_shown_ones_are_left_to_people(tmp_path):
    write(
        tmp_path / "queries-a.1.jsonl",
        line(1, question="How far?", chunks=[chunk("d1", 4), chunk("d2", 1)],
             cited=[citation("d1", 4), citation("d1", 4)]),
        line(2, question="how  FAR?", chunks=[chunk("d3", 1)]),
        line(3, question="A search", chunks=[chunk("d1", 4), chunk("d1", 4)]),
        line(4, question="Text and PDF", chunks=[chunk("d1", 2), chunk("d4", None)],
             cited=[citation("d1", 2), citation("d4", None)],
             options={"filter": {"tenant": "acme"}}),
        line(5, question="It failed", status=502),
        line(6, question="", question_hash="00ff"),
        line(7, question="A PDF", chunks=[chunk("d1", 2), chunk("d4", None), chunk("d5", 3)],
             cited=[citation("d1", 2)]),
    )  # fmt: skip
    report = to_queries(iter(Log(tmp_path)), tmp_path / "set")
    assert report | {"folder": ""} == {
        "folder": "", "queries": 4, "silver_queries": 3, "silver_judgements": 4, "unjudged": 3,
        "duplicates": 1, "with_filter": 1, "failed": 1, "without_text": 1, "without_page": 1,
    }  # fmt: skip
    queries = read_queries(tmp_path / "set/queries.jsonl")
    assert list(queries.values()) == ["How far?", "A search", "Text and PDF", "A PDF"]
    ids = {text: query_id for query_id, text in queries.items()}
    judged = {(q.query_id, q.corpus_id, q.page, q.relevance)
              for q in read_qrels(tmp_path / "set/qrels.tsv")}  # fmt: skip
    assert judged == {
        (ids["How far?"], "d1", 4, 1),
        (ids["Text and PDF"], "d1", None, 1),  # by document, as one of them has no pages
        (ids["Text and PDF"], "d4", None, 1),
        (ids["A PDF"], "d1", 2, 1),  # by page, though one that was only shown has none
    }
    rows = [json.loads(one) for one in (tmp_path / "set/queries.jsonl").read_text().splitlines()]
    assert [(row["asked"], row["judgements"]) for row in rows] == [
        (2, "silver"), (1, "none"), (1, "silver"), (1, "silver"),
    ]  # fmt: skip
    assert rows[2]["filter"] == {"tenant": "acme"}
    unjudged = (tmp_path / "set/unjudged.tsv").read_text().splitlines()
    assert unjudged[1] == f"{ids['How far?']}\td2\t1\t\tshown\t/docs/d2 a.pdf"
    assert unjudged[2].startswith(f"{ids['A search']}\td1\t4\t\tshown")


def test_a_log_without_text_gives_no_evaluation_set(tmp_path):
    row = line(1)
    del row["question"]
    write(tmp_path / "queries-a.1.jsonl", row)
    with pytest.raises(UsageError, match=r"1 have no text.*service\.log\.text"):
        to_queries(iter(Log(tmp_path)), tmp_path / "set")


@pytest.mark.parametrize("name", ["queries.jsonl", "qrels.tsv", "unjudged.tsv"])
def test_what_people_may_have_judged_is_not_overwritten(tmp_path, name):
    write(tmp_path / "queries-a.1.jsonl", line(1))
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / name).write_text("judged")
    with pytest.raises(UsageError, match=rf"{name} exists: name another folder, or delete it"):
        to_queries(iter(Log(tmp_path)), folder)
    assert [path.read_text() for path in folder.iterdir()] == ["judged"]
