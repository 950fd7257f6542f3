"""Guardrails over the query path, with a language model that says what it is told to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from chat_server import answer as chat_answer
from chat_server import serve

from rag_cluster.answer.query import Answer, Engine
from rag_cluster.cli import run

QUESTION = "Which colour number has star 7 in 2020?"
RIGHT = "Star 7 shines in colour number 7. [1]"
WRONG = "Star 7 shines in colour number 12. [1]"


def ask(collection: Path, said: str, *settings: str, question: str = QUESTION) -> Answer:
    with serve(lambda call: chat_answer(said, call)) as url:
        model = ["generate.kind=openai", "generate.model=m", f"generate.base_url={url}"]
        bm25 = ["retrieve.channels=[bm25]", "retrieve.expand=none", "answer.passages=1"]
        engine = Engine.open(collection, None, [*model, *bm25, *settings])
        return asyncio.run(engine.ask(question, top_k=1))


DATED = ("guardrails.date_field=year", "guardrails.now=2010-06-30")


def test_an_answer_carries_the_verdicts(collection: Path) -> None:
    result = ask(collection, WRONG, *DATED)
    found = {verdict.rule: verdict.status for verdict in result.guardrails}
    assert found["grounding"] == found["coverage"] == "flagged"
    assert found["stale"] == "flagged"  # star 7 is of 2007, which ended more than 365 days before
    assert found["temporal"] == "flagged"  # the question asks for 2020
    assert found["injection"] == "ok"
    assert result.answer == WRONG
    assert "no passage says: 12" in result.notes
    assert result.to_json()["guardrails"]["grounding"]["findings"][0]["text"] == "12"
    assert "guard" in result.timings_ms
    json.dumps(result.to_json(), allow_nan=False)


def test_a_right_answer_is_not_flagged(collection: Path) -> None:
    result = ask(collection, RIGHT, question="Which colour number has star 7?")
    found = {verdict.rule: verdict.status for verdict in result.guardrails}
    assert found["grounding"] == found["coverage"] == "ok"
    assert found["stale"] == "not_applicable"
    assert not any("passage" in note for note in result.notes)


def test_a_blocked_answer_keeps_its_hits(collection: Path) -> None:
    result = ask(collection, WRONG, "guardrails.grounding=block")
    assert "12. [1]" not in result.answer
    assert result.answer.startswith("This answer is withheld by a guardrail (grounding: ")
    assert result.citations == []
    assert [hit.title for hit in result.hits] == ["Star 7"]


def test_a_person_reads_each_thing_once(
    collection: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(lambda call: chat_answer(WRONG, call)) as url:
        settings = [
            "generate.kind=openai", "generate.model=m", f"generate.base_url={url}",
            "retrieve.channels=[bm25]", "retrieve.top_k=1",
        ]  # fmt: skip
        arguments = [part for setting in settings for part in ("--set", setting)]
        assert run(["ask", QUESTION, "--collection", str(collection), *arguments]) == 0
    shown = capsys.readouterr().out
    assert "flagged, grounding: no passage says: 12\n" in shown
    assert shown.count("no passage says: 12") == shown.count("no passage supports:") == 1
