"""Runs with a fake language model: what is kept, retried, skipped, taken over and written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sampled import about, document, pair, passage_of, publish

from rag_cluster.errors import RefusedError, ServiceError, UsageError
from rag_cluster.evaluate.datasets import read_qrels, read_queries
from rag_cluster.models.fakes import FakeLLM
from rag_cluster.models.ports import Request
from rag_cluster.questions import Snapshot, Wanted, make_questions
from rag_cluster.questions.partial import Partial
from rag_cluster.show.questions import describe
from rag_cluster.storage import Collection

Made = dict[str, Any]
DOCUMENTS = [document("alpha", 6), document("beta", 3), document("gamma", 1)]


def call_of(request: Request) -> Made:
    return {"messages": [{"content": message.content} for message in request.messages]}


def good(request: Request) -> str:
    return about(call_of(request))


def make(
    home: Path, out: Path, rule: Callable[[Request], str] | FakeLLM = good, count: int = 5,
    on_progress: Callable[[Snapshot], None] | None = None, **wanted: Any,
) -> Made:  # fmt: skip
    llm = rule if isinstance(rule, FakeLLM) else FakeLLM(rule)
    options = Wanted(count=count, **({"min_words": 6} | wanted))
    return asyncio.run(make_questions(home, out, options, llm=llm, on_progress=on_progress))


def rows_of(out: Path) -> list[Made]:
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    publish(str(tmp_path / "c"), DOCUMENTS, shards=2)
    return tmp_path / "c"


def test_questions_and_qrels_are_written(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "questions.jsonl"
    shown: list[Snapshot] = []
    made = make(home, out, on_progress=shown.append)
    assert (made["questions"], made["asked"], made["skipped"]) == (5, 5, {})
    assert (made["documents"], made["chunks"], made["eligible"]) == (3, 10, 10)
    assert made["prompt_tokens"] > 100
    assert made["ended"] == "all questions are made"
    rows = rows_of(out)
    assert read_queries(out) == {row["_id"]: row["text"] for row in rows}
    qrels = read_qrels(tmp_path / "questions.qrels.tsv")
    assert [q.query_id for q in qrels] == [row["_id"] for row in rows]
    assert {q.corpus_id for q in qrels} == {"alpha.txt", "beta.txt", "gamma.txt"}
    assert {(q.page, q.relevance) for q in qrels} == {(None, 1)}
    for row in rows:
        (source,) = row["sources"]
        found = Collection.open(home).document(source["doc_id"], ["text"])
        text = found["text"][source["start"] : source["end"]]
        assert source["quote"] in text
        assert row["answer"] in source["quote"]
    assert not list(tmp_path.glob("*.partial"))
    assert (shown[-1].made, shown[-1].wanted, shown[-1].asked) == (5, 5, 5)


def test_a_long_document_does_not_drown_the_short_ones(home: Path, tmp_path: Path) -> None:
    make(home, tmp_path / "q", count=4)
    names = [row["sources"][0]["document"] for row in rows_of(tmp_path / "q")]
    assert set(names) == {"alpha.txt", "beta.txt", "gamma.txt"}


def test_pages_are_those_of_the_quoted_sentence(tmp_path: Path) -> None:
    """A chunk over two pages is judged by the page on which its answer stands."""
    first = "Wind, rain, pressure and light are measured on the roof of the Borea station."
    second = "The mast bolts of the Borea station are tightened with a torque of 24 Nm."
    pages = [
        {"number": 7, "start": 0, "end": len(first) + 1},
        {"number": 8, "start": len(first) + 1, "end": 1000},
    ]
    publish(str(tmp_path / "c"), [document("borea", [f"{first} {second}"], pages=pages)])
    rule = lambda _: pair("Which torque do the mast bolts of the Borea need?", "24 Nm")  # noqa: E731
    make(tmp_path / "c", tmp_path / "q.jsonl", rule, count=1)
    (qrel,) = read_qrels(tmp_path / "q.qrels.tsv")
    assert qrel.page == 8
    assert rows_of(tmp_path / "q.jsonl")[0]["sources"][0]["quote"] == second


def test_documents_of_one_name_are_told_apart(tmp_path: Path) -> None:
    same = [document("a", 1), document("b", 1), document("c d", 1)]
    same[0]["uri"], same[1]["uri"] = "/one/x.txt", "/two/x.txt"
    publish(str(tmp_path / "c"), same)
    make(tmp_path / "c", tmp_path / "q.jsonl", count=3)
    names = {qrel.corpus_id for qrel in read_qrels(tmp_path / "q.qrels.tsv")}
    ids = Collection.open(tmp_path / "c").documents(["doc_id", "uri"]).to_pylist()
    assert names == {"c d.txt", *(row["doc_id"] for row in ids if row["uri"].endswith("x.txt"))}


def test_a_broken_rule_is_told_once_and_then_skipped(home: Path, tmp_path: Path) -> None:
    def rule(request: Request) -> str:
        again = len(request.messages) > 1
        name = passage_of(call_of(request)).split()[1]
        if name == "Alpha" or (name == "Beta" and not again):
            return pair("What does this passage say of the station?", "wind, rain and pressure")
        return good(request)

    llm = FakeLLM(rule)
    made = make(home, tmp_path / "q", llm, count=4)
    assert made["questions"] == 4
    assert made["retried"] == 6 + 3
    assert made["skipped"] == {"not standalone": 6}
    told = [request.messages[-1].content for request in llm.requests if len(request.messages) > 1]
    assert all('says "this"' in text or "this passage" in text for text in told)


def test_json_is_repaired_once_and_what_the_model_declines_is_skipped(tmp_path: Path) -> None:
    publish(
        str(tmp_path / "c"), [document(name, 1) for name in ("alpha", "beta", "gamma", "delta")]
    )

    def rule(request: Request) -> str:
        name = passage_of(call_of(request)).split()[1]
        if name == "Alpha":
            return "I would rather not."
        if name == "Beta":
            return pair("", "")
        if name == "Gamma" and len(request.messages) == 1:
            return "Certainly!"
        return good(request)

    made = make(tmp_path / "c", tmp_path / "q", rule, count=4)
    assert made["questions"] == 2
    assert made["skipped"] == {"no usable answer": 1, "nothing to ask, says the model": 1}
    assert made["ended"] == "no chunks are left to ask about"


def test_a_chunk_with_too_little_is_replaced_by_the_next_of_its_document(tmp_path: Path) -> None:
    thin = "Bolts bolts bolts bolts bolts bolts bolts."
    long = document("long", [thin, thin + " Bolts.", document("long", 1)["texts"][0]])
    publish(str(tmp_path / "c"), [long, document("other", 3)])
    made = make(tmp_path / "c", tmp_path / "q", count=2)
    names = {row["sources"][0]["document"] for row in rows_of(tmp_path / "q")}
    assert names == {"long.txt", "other.txt"}
    assert made["asked"] == 2
    assert set(made["skipped"]) <= {"few words"}


def test_duplicates_are_replaced(home: Path, tmp_path: Path) -> None:
    def rule(request: Request) -> str:
        if "Alpha" in passage_of(call_of(request)):
            return pair(
                "What does a weather station measure every minute?", "wind, rain and pressure"
            )
        return good(request)

    made = make(home, tmp_path / "q", rule, count=5)
    texts = [row["text"] for row in rows_of(tmp_path / "q")]
    assert made["questions"] == len(set(texts)) == 5
    assert sum("minute?" in text for text in texts) == 1
    assert made["skipped"]["duplicate question"] == 5


def test_a_model_that_gives_nothing_is_not_asked_for_ever(tmp_path: Path) -> None:
    publish(str(tmp_path / "c"), [document("alpha", 60)])
    made = make(tmp_path / "c", tmp_path / "q", lambda _: "no", count=3)
    assert made["questions"] == 0
    assert made["asked"] == 15
    assert "too few of them gave a question" in made["ended"]
    assert not (tmp_path / "q").exists()
    # What was answered is kept, so asking again costs nothing.
    llm = FakeLLM(lambda _: "no")
    again = make(tmp_path / "c", tmp_path / "q", llm, count=3)
    assert (again["taken_over"], again["asked"], llm.requests) == (15, 0, [])


def failing_after(count: int, error: Exception) -> FakeLLM:
    left = iter(range(count))

    def rule(request: Request) -> str:
        if next(left, None) is None:
            raise error
        return good(request)

    return FakeLLM(rule)


def test_a_server_that_refuses_stops_the_run_and_keeps_what_is_done(
    home: Path, tmp_path: Path
) -> None:
    undisturbed = make(home, tmp_path / "undisturbed")
    with pytest.raises(
        RefusedError, match=r"no such model\. 2 chunks were answered, which .*q\.part"
    ):
        make(home, tmp_path / "q", failing_after(2, RefusedError("no such model")))
    llm = FakeLLM(good)
    made = make(home, tmp_path / "q", llm)
    assert (made["taken_over"], made["asked"], len(llm.requests)) == (2, 3, 3)
    assert (tmp_path / "q").read_text() == (tmp_path / "undisturbed").read_text()
    assert made["prompt_tokens"] == undisturbed["prompt_tokens"]


def test_a_request_that_fails_is_counted_and_many_in_a_row_stop_the_run(tmp_path: Path) -> None:
    publish(str(tmp_path / "c"), [document(f"d{i}", 2) for i in range(12)])

    def rule(request: Request) -> str:
        if "D3 " in passage_of(call_of(request)):
            raise ServiceError("HTTP 500")
        return good(request)

    made = make(tmp_path / "c", tmp_path / "q", rule, count=12)
    assert (made["questions"], made["failed"]) == (12, 2)
    with pytest.raises(ServiceError, match="8 requests in a row failed, at last: HTTP 503"):
        make(tmp_path / "c", tmp_path / "r", failing_after(3, ServiceError("HTTP 503")), count=12)


def test_another_model_asks_anew(home: Path, tmp_path: Path) -> None:
    with pytest.raises(RefusedError):
        make(home, tmp_path / "q", failing_after(2, RefusedError("no")))
    other = FakeLLM(good)
    other.name = "other"
    made = make(home, tmp_path / "q", other)
    assert (made["taken_over"], made["asked"]) == (0, 5)


def test_half_a_line_of_a_killed_process_is_cut_off(home: Path, tmp_path: Path) -> None:
    with pytest.raises(RefusedError):
        make(home, tmp_path / "q", failing_after(2, RefusedError("no")))
    partial = tmp_path / "q.partial"
    partial.write_bytes(partial.read_bytes() + b'{"chunk_id": "abc", "pro')
    assert make(home, tmp_path / "q")["taken_over"] == 2


def test_files_that_are_there_are_not_replaced(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "q.jsonl"
    out.write_text("mine\n")
    with pytest.raises(UsageError, match=r"q\.jsonl is there already"):
        make(home, out)
    assert out.read_text() == "mine\n"
    (tmp_path / "p.partial").write_text("not JSON\n")
    with pytest.raises(UsageError, match="does not hold what a run"):
        make(home, tmp_path / "p")
    with pytest.raises(UsageError, match="its folder is not there"):
        make(home, tmp_path / "none" / "q")
    with pytest.raises(UsageError, match="cannot hold the questions and the qrels"):
        make(home, tmp_path / "s", qrels=tmp_path / "s")


def test_one_process_at_a_time(home: Path, tmp_path: Path) -> None:
    def rule(request: Request) -> str:
        with pytest.raises(UsageError, match="another process is writing"):
            Partial(tmp_path / "q.partial")
        return good(request)

    make(home, tmp_path / "q", rule, count=1)


@pytest.mark.parametrize(
    ("snapshot", "said"),
    [
        (Snapshot(100), "0m00s  0/100 questions, 0 chunks asked about (0 failed), 0 skipped"),
        (
            Snapshot(100, made=40, before=10, asked=60, skipped=25, failed=5, elapsed=30.0),
            (
                "0m30s  40/100 questions, 60 chunks asked about (5 failed), 25 skipped, "
                "2.0 chunks/s, about 1m00s left"
            ),
        ),
        (
            Snapshot(2, asked=1, elapsed=240.0),
            "4m00s  0/2 questions, 1 chunks asked about (0 failed), 0 skipped, 0.2 chunks/min",
        ),
    ],
    ids=["at first", "fast", "slow"],
)
def test_progress_is_a_line(snapshot: Snapshot, said: str) -> None:
    assert describe(snapshot) == said
