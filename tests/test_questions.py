"""The command `questions`: over real HTTP, killed in the middle, from a bucket, and evaluated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import chat_server
import pytest
from chat_server import Reply
from sampled import about, document, passage_of, publish, saying

from rag_cluster.cli import run

Captured = pytest.CaptureFixture[str]
Call = dict[str, Any]
COMMAND = Path(sys.executable).with_name("rag-cluster")


def arguments(home: object, out: Path, url: str, *more: str) -> list[str]:
    settings = {
        "engine": "openai",
        "model": "tiny",
        "base_url": url,
        "retries": 0,
        "concurrency": 2,
    }
    words = [word for key, value in settings.items() for word in ("--set", f"llm.{key}={value}")]
    return ["questions", "--collection", str(home), "--out", str(out), "--min-words", "4",
            *words, *more]  # fmt: skip


def test_questions_of_the_corpus_are_evaluated_as_they_are(
    collection: Path, tmp_path: Path, capsys: Captured
) -> None:
    out = tmp_path / "questions.jsonl"
    asked: list[Call] = []
    with chat_server.serve(saying(about, asked)) as url:
        more = ["--count", "12", "--by", "kind_of", "--json"]
        assert run(arguments(collection, out, url, *more)) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["questions"], made["wanted"], made["asked"]) == (12, 12, len(asked))
    assert sum(made["strata"].values()) == 12
    assert max(made["strata"].values()) - min(made["strata"].values()) <= 1
    assert {call["response_format"]["type"] for call in asked} == {"json_schema"}

    files = ["--queries", str(out), "--qrels", str(tmp_path / "questions.qrels.tsv")]
    settings = ["--metrics", "Success@5", "--set", "retrieve.channels=[bm25]", "--json"]
    assert run(["evaluate", "--collection", str(collection), *files, *settings]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["queries"] == 12
    assert measured["notes"] == []
    assert measured["metrics"]["Success@5"] > 0.8


def test_people_see_what_came_of_it(tmp_path: Path, capsys: Captured) -> None:
    publish(
        str(tmp_path / "c"), [document("alpha", 3), document("thin", ["Bolts and masts, bolts."])]
    )
    with chat_server.serve(saying(about, [])) as url:
        assert run(arguments(tmp_path / "c", tmp_path / "q.jsonl", url)) == 0
    shown = capsys.readouterr().out
    assert "3 of 100 questions: no chunks are left to ask about" in shown
    assert "few words" in shown
    assert f"wrote {tmp_path}/q.jsonl and {tmp_path}/q.qrels.tsv" in shown


def test_a_killed_run_goes_on_and_asks_nothing_twice(tmp_path: Path, capsys: Captured) -> None:
    publish(str(tmp_path / "c"), [document(f"d{i}", 4) for i in range(5)])
    asked: list[str] = []
    free = threading.Event()

    def decide(call: Call) -> Reply:
        asked.append(passage_of(call))
        reply = chat_server.answer(about(call), call)
        return Reply(body=reply.body, wait=free) if len(asked) > 6 else reply

    out, whole = tmp_path / "q.jsonl", tmp_path / "whole.jsonl"
    with chat_server.serve(decide) as url:
        process = subprocess.Popen(
            [COMMAND, *arguments(tmp_path / "c", out, url, "--count", "12")],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        partial = tmp_path / "q.jsonl.partial"
        deadline = time.monotonic() + 120
        while not partial.exists() or len(partial.read_bytes().splitlines()) < 6:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        free.set()
        assert not out.exists()
        # The requests that were on their way when it was killed were not answered to it.
        answered, asked[:] = asked[:6], []
        assert run(arguments(tmp_path / "c", out, url, "--count", "12", "--json")) == 0
        made = json.loads(capsys.readouterr().out)
        assert (made["questions"], made["taken_over"], made["asked"]) == (12, 6, 6)
        assert not set(asked) & set(answered)
        assert len(asked) == len(set(asked)) == 6
        assert run(arguments(tmp_path / "c", whole, url, "--count", "12")) == 0
    assert out.read_text() == whole.read_text()
    assert not partial.exists()


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "refused: HTTP 401"), (404, "refused: HTTP 404"), (500, "3 requests in a row failed")],
)
def test_a_server_that_refuses_is_one_line(
    tmp_path: Path, capsys: Captured, status: int, said: str
) -> None:
    publish(str(tmp_path / "c"), [document("alpha", 5)])
    with chat_server.serve(lambda _: Reply(status)) as url:
        assert run(arguments(tmp_path / "c", tmp_path / "q", url)) == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert said in shown
    assert "0 chunks were answered" in shown
    assert "Traceback" not in shown


def test_what_is_missing_is_said_before_anything_is_asked(tmp_path: Path, capsys: Captured) -> None:
    publish(str(tmp_path / "c"), [document("alpha", 2)])
    command = ["questions", "--collection", str(tmp_path / "c"), "--out", str(tmp_path / "q")]
    for more, said in (
        ([], "this needs a language model: set llm.engine and llm.model"),
        (["--set", "llm.engine=vllm", "--set", "llm.model=m"], "start 'vllm serve m'"),
        (["--set", "llm.engine=fake", "--by", "year"], "no such metadata field"),
        (["--set", "embed.model=fake:32"], "was made with embed.model"),
        (["--set", "llm.engine=fake", "--set", "prompts.question=Ask!"], "placeholders missing"),
    ):
        assert run([*command, *more]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_model_that_gives_nothing_ends_with_counts(tmp_path: Path, capsys: Captured) -> None:
    """The echo of `fake` names what the prompt says, which no chunk holds."""
    publish(str(tmp_path / "c"), [document("alpha", 4)])
    command = ["questions", "--collection", str(tmp_path / "c"), "--out", str(tmp_path / "q")]
    assert run([*command, "--set", "llm.engine=fake", "--json"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["skipped"] == {"no question": 4}
    assert "no question was made" in shown.err


def test_a_collection_in_a_bucket(bucket: str, tmp_path: Path, capsys: Captured) -> None:
    publish(f"{bucket}/c", [document("alpha", 4), document("beta", 2)], shards=2)
    with chat_server.serve(saying(about, [])) as url:
        command = arguments(f"{bucket}/c", tmp_path / "q.jsonl", url, "--count", "4", "--json")
        assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["questions"] == 4
    assert len((tmp_path / "q.qrels.tsv").read_text().splitlines()) == 5
