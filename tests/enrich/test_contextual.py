from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster import config
from rag_cluster.chunk.stage import Chunker
from rag_cluster.enrich.contextual import Contextual, read_context
from rag_cluster.errors import ConfigError
from rag_cluster.models.prompting import Prompting
from rag_cluster.models.tokenizer import load_tokenizer
from rag_cluster.schema import DOCUMENT, rows_to_table

WORDS = load_tokenizer("fake:8")  # a token is a word


def settings(window: int, **more: Any) -> config.Config:
    tree = {
        "embed": {"model": "fake:8"},
        "chunk": {"strategy": "fixed", "size": 10, "min_size": 0},
        "enrich": {"kind": "contextual", "context_tokens": 12},
        "llm": {"engine": "fake", "window": window},
    }
    return config.build(tree | more)


def document(words: int, headings: int = 0) -> dict[str, Any]:
    text = " ".join(f"w{i}" for i in range(words))
    bound = [words * i // max(1, headings) for i in range(headings)]
    sections = [
        {"title": f"Head {i}", "level": 1, "parent": -1, "path": "", "role": "body",
         "start": text.index(f"w{at}"), "body": text.index(f"w{at}"), "end": len(text)}
        for i, at in enumerate(bound)
    ]  # fmt: skip
    return {"doc_id": "d", "uri": "d.txt", "title": "Title", "text": text, "status": "ok",
            "sections": sections, "content_hash": "x"}  # fmt: skip


def asked(made: config.Config, row: dict[str, Any]) -> list[Any]:
    chunks = Chunker(made)(rows_to_table([row], DOCUMENT)).to_pylist()
    return Contextual(made, Prompting(made))(row, chunks)


def test_all_chunks_of_a_document_share_the_prompt_up_to_the_chunk() -> None:
    made, row = settings(2000), document(50)
    requests = [one.request for one in asked(made, row)]
    assert len(requests) == 5
    prompts = [request.messages[0].content for request in requests]
    shared = prompts[0].index("<passage>")
    assert row["text"] in prompts[0][:shared]
    assert len({prompt[:shared] for prompt in prompts}) == 1
    assert all("w10 w11" in prompt[shared:] for prompt in prompts[1:2])
    assert {request.max_tokens for request in requests} == {12}
    assert {one.dropped for one in asked(made, row)} == {0}


@given(words=st.integers(60, 600), window=st.integers(200, 400), headings=st.integers(0, 8))
def test_a_prompt_never_exceeds_the_window_and_says_what_it_left_out(
    words: int, window: int, headings: int
) -> None:
    made, row = settings(window), document(words, headings)
    prompting = Prompting(made)
    for one in asked(made, row):
        length = prompting.length(one.request.messages)
        assert length + one.request.max_tokens <= window
        prompt = one.request.messages[0].content
        assert (one.dropped == 0) == (row["text"] in prompt)


def test_beyond_the_window_there_is_an_outline_and_the_text_around_the_chunk() -> None:
    made, row = settings(300), document(1000, headings=4)
    requests = asked(made, row)
    prompts = [one.request.messages[0].content for one in requests]
    for number, prompt in enumerate(prompts):
        around, passage = prompt.split("<passage>")
        assert "Head 0\nHead 1\nHead 2\nHead 3" in around
        assert f"w{10 * number} " in passage
        assert f"w{10 * number} " in around  # the chunk stands within the stretch of text
    # Neighbours mostly have the same stretch, so that they share a prefix.
    same = [a.split("<passage>")[0] == b.split("<passage>")[0]
            for a, b in itertools.pairwise(prompts)]  # fmt: skip
    assert sum(same) > len(same) / 2


def test_a_chunk_that_is_the_whole_document_needs_no_context() -> None:
    assert asked(settings(2000), document(8)) == []


def test_a_window_without_room_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match=r"window of 100 tokens has no room.*llm\.window"):
        Contextual(settings(100), Prompting(settings(100)))


@pytest.mark.parametrize(
    ("answer", "most", "context"),
    [
        ("A line.", 9, "A line."),
        ("\n\n\n  A   line\nof two.  \n\nAnd more.", 9, "A line of two."),
        ('"Quoted."', 9, "Quoted."),
        ("One two three. Four five six seven.", 5, "One two three."),
        ("one two three four five six", 4, "one two three four"),
        ("---\n\n***", 9, ""),
        ("", 9, ""),
    ],
)
def test_of_an_answer_the_first_paragraph_is_kept(answer: str, most: int, context: str) -> None:
    assert read_context(answer, most, WORDS) == context
