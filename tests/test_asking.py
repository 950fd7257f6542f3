"""Stages around a language model, without Ray: what is asked, over real HTTP, and what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import chat_server
import pyarrow as pa
import pytest
from chat_server import Reply

from rag_cluster import config
from rag_cluster.asking import Asker, KeepGenerated, Prompts
from rag_cluster.errors import RefusedError, ServiceError
from rag_cluster.generated import Asked, Generated, merged, prompt_hash
from rag_cluster.models.ports import Message, Request
from rag_cluster.schema import DOCUMENT, GENERATED, PROMPT, rows_to_table
from rag_cluster.work import part_files

MODEL = {"engine": "openai", "model": "tiny", "revision": ""}
FACTS = {
    "type": "object",
    "properties": {"facts": {"type": "array", "items": {"type": "string"}}},
    "required": ["facts"],
}


def prompts(count: int, schema: dict[str, Any] | None = None) -> pa.Table:
    rows = [
        {
            "prompt_hash": bytes([number] * 16),
            "chunk_id": f"c{number}",
            "doc_id": "d",
            "messages": [{"role": "user", "content": f"number {number}"}],
            "dropped_tokens": 0,
            "max_tokens": 20,
            "json_schema": None if schema is None else json.dumps(schema),
        }
        for number in range(count)
    ]
    return rows_to_table(rows, PROMPT)


def ask(url: str, table: pa.Table, **settings: object) -> list[dict[str, Any]]:
    llm = {"engine": "openai", "model": "tiny", "base_url": url, "retries": 0} | settings
    answers = Asker(config.build({"llm": llm}), MODEL)(table)
    assert answers.schema == GENERATED
    return answers.to_pylist()


def test_each_prompt_gets_its_answer_and_the_counts_of_the_server() -> None:
    def decide(call: dict[str, Any]) -> Reply:
        reply = json.loads(chat_server.answer("said " + call["messages"][0]["content"], call).body)
        reply["usage"]["prompt_tokens_details"] = {"cached_tokens": 5}
        return Reply(body=json.dumps(reply).encode())

    with chat_server.serve(decide) as url:
        rows = ask(url, prompts(9), concurrency=3)
    assert [row["text"] for row in rows] == [f"said number {n}" for n in range(9)]
    assert {row["prompt_tokens"] for row in rows} == {7}
    assert {row["cached_tokens"] for row in rows} == {5}
    assert {row["completion_tokens"] for row in rows} == {3}
    assert {row["error"] for row in rows} == {None}


def test_no_more_requests_run_at_a_time_than_allowed() -> None:
    import threading

    running, most, lock = 0, 0, threading.Lock()

    def decide(call: dict[str, Any]) -> Reply:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.05)
        with lock:
            running -= 1
        return chat_server.answer("well", call)

    with chat_server.serve(decide) as url:
        ask(url, prompts(12), concurrency=3)
    assert most == 3


def test_a_request_that_fails_is_a_row_with_its_reason() -> None:
    def decide(call: dict[str, Any]) -> Reply:
        broken = call["messages"][0]["content"] == "number 1"
        return Reply(500) if broken else chat_server.answer("well", call)

    with chat_server.serve(decide) as url:
        rows = ask(url, prompts(3))
    assert [row["text"] for row in rows] == ["well", None, "well"]
    assert "HTTP 500" in rows[1]["error"]


def test_a_server_that_answers_nothing_stops_the_run() -> None:
    with (
        chat_server.serve(lambda _: Reply(500)) as url,
        pytest.raises(ServiceError, match=r"none of 3 requests was answered.*HTTP 500"),
    ):
        ask(url, prompts(3))
    with (
        chat_server.serve(lambda _: Reply(401)) as url,
        pytest.raises(RefusedError, match="refused: HTTP 401"),
    ):
        ask(url, prompts(3))


def test_json_is_asked_for_once_more_and_then_is_a_counted_failure() -> None:
    asked: list[dict[str, Any]] = []
    good = '{"facts": ["whales sing"]}'

    def decide(call: dict[str, Any]) -> Reply:
        asked.append(call)
        first = call["messages"][0]["content"]
        again = len(call["messages"]) > 1
        if first == "number 0":
            return chat_server.answer(f"Here it is:\n```json\n{good}\n```", call)
        if first == "number 1":
            return chat_server.answer(good if again else '{"facts": "whales"}', call)
        return chat_server.answer("I would rather not", call)

    with chat_server.serve(decide) as url:
        rows = ask(url, prompts(3, FACTS))
    assert [row["text"] for row in rows] == [good, good, None]
    assert "no JSON" in rows[2]["error"]
    assert [row["prompt_tokens"] for row in rows] == [7, 14, None]
    assert len(asked) == 5
    assert all(call["response_format"]["json_schema"]["schema"] == FACTS for call in asked)
    repaired = [call["messages"] for call in asked if len(call["messages"]) > 1]
    assert any("$.facts" in messages[2]["content"] for messages in repaired)


def test_half_a_character_in_json_fails_nothing() -> None:
    def decide(call: dict[str, Any]) -> Reply:
        return chat_server.answer(r'{"facts": ["a smile \ud83d\ude00", "half a one \ud83d"]}', call)

    with chat_server.serve(decide) as url:
        rows = ask(url, prompts(1, FACTS))
    assert rows[0]["text"] == '{"facts": ["a smile 😀", "half a one ?"]}'


def request(text: str) -> Request:
    return Request((Message("user", text),), max_tokens=20)


def document(doc_id: str, text: str) -> dict[str, Any]:
    return {"doc_id": doc_id, "text": text, "status": "ok"}


def make_prompts(work: Path, known: Generated) -> Prompts:
    """A chunk for each word, and a request for each chunk."""

    def chunk(table: pa.Table) -> pa.Table:
        rows = [
            {"chunk_id": f"{row['doc_id']}-{word}", "doc_id": row["doc_id"], "text": word}
            for row in table.to_pylist()
            for word in row["text"].split()
        ]
        return pa.Table.from_pylist(rows)

    return Prompts(
        config.build({"llm": {"engine": "openai", "model": "tiny"}, "index": {"shards": 2}}),
        chunk=chunk,
        make=lambda _: lambda _, chunks: [Asked(c["chunk_id"], request(c["text"])) for c in chunks],
        model=MODEL,
        known=known,
        work=work,
    )


def stored(work: Path) -> Generated:
    return Generated([path for shard in (0, 1) for path in part_files(work, "generated", shard)])


def answered(table: pa.Table, *, fails: str = "") -> pa.Table:
    rows = []
    for row in table.to_pylist():
        said = row["messages"][0]["content"]
        rows.append(
            {name: row[name] for name in ("prompt_hash", "chunk_id", "doc_id")}
            | ({"error": "broken"} if said == fails else {"text": f"about {said}"})
            | {"model": "tiny", "prompt_tokens": 2, "cached_tokens": 1, "completion_tokens": 3}
        )
    return rows_to_table(rows, GENERATED)


def test_what_was_answered_is_not_asked_again_and_what_failed_is(tmp_path: Path) -> None:
    documents = rows_to_table([document("a", "one two"), document("b", "three one")], DOCUMENT)
    first = make_prompts(tmp_path / "1", Generated([]))(documents)
    assert first["chunk_id"].to_pylist() == ["a-one", "a-two", "b-three", "b-one"]
    counts = KeepGenerated(tmp_path / "1", 2)(answered(first, fails="two"))
    assert counts.to_pylist() == [
        {"answers": 4, "failed": 1, "dropped_tokens": 0, "prompt_tokens": 8, "cached_tokens": 4,
         "completion_tokens": 12}
    ]  # fmt: skip
    before = stored(tmp_path / "1")
    assert before.texts(["a"]) == {"a-one": "about one"}

    changed = rows_to_table([document("a", "one two"), document("b", "three four")], DOCUMENT)
    again = make_prompts(tmp_path / "2", before)(changed)
    assert again["chunk_id"].to_pylist() == ["a-two", "b-four"]
    KeepGenerated(tmp_path / "2", 2)(answered(again))
    # What was taken over stands beside it, and what the document no longer says does not.
    assert stored(tmp_path / "2").texts(["a", "b"]) == {
        "a-one": "about one", "a-two": "about two", "b-three": "about three",
        "b-four": "about four",
    }  # fmt: skip


def test_another_model_or_limit_is_another_request() -> None:
    names = {
        prompt_hash(request("one"), MODEL),
        prompt_hash(request("two"), MODEL),
        prompt_hash(request("one"), MODEL | {"model": "other"}),
        prompt_hash(request("one"), MODEL | {"revision": "2"}),
        prompt_hash(Request((Message("user", "one"),), max_tokens=21), MODEL),
        prompt_hash(Request((Message("system", "one"),), max_tokens=20), MODEL),
    }
    assert len(names) == 6
    assert prompt_hash(request("one"), MODEL) in names


def test_of_two_rows_of_a_chunk_the_one_with_a_text_stays() -> None:
    def rows(**texts: str | None) -> pa.Table:
        made = [{"chunk_id": name, "doc_id": "d", "text": text} for name, text in texts.items()]
        return rows_to_table(made, GENERATED)

    both = merged([rows(a="old", b="old", c=None), rows(a="new", b=None, c=None)])
    assert both["text"].to_pylist() == ["new", "old", None]
