"""The last question of a conversation, made standalone by a rule or by a language model."""

import asyncio

import pytest

from rag_cluster.answer.conversation import TURN_TOKENS, Turn, joined, standalone
from rag_cluster.config import load
from rag_cluster.models.fakes import FakeLLM
from rag_cluster.models.prompting import Prompting
from rag_cluster.retrieve.transform import Model

PROMPTING = Prompting(load(None, ["embed.model=fake:64"]))
TURNS = (
    Turn("user", "What is the pressure limit of the pump?"),
    Turn("assistant", "The pressure limit is 12 bar."),
)


def ask(question, turns=TURNS, answers=None, timeout_s=5.0, most_chars=400, delay_s=0.0):
    """The standalone question, and what the language model was asked."""
    llm = FakeLLM(answers or [], delay_s=delay_s)
    model = None if answers is None else Model(llm, PROMPTING, {})
    found = asyncio.run(
        standalone(question, turns, model, timeout_s=timeout_s, most_chars=most_chars)
    )
    return found, llm.requests


def test_a_question_without_turns_is_left_alone():
    found, asked = ask("And the flow?", turns=(), answers=["x"])
    assert found.question == "And the flow?"
    assert not asked


def test_a_rule_joins_what_leans_and_leaves_the_rest():
    assert ask("How do I lower it?")[0].question == (
        "What is the pressure limit of the pump? How do I lower it?"
    )
    whole = "When does the garden open?"
    assert ask(whole)[0].question == whole


def test_a_model_is_asked_once_with_the_turns():
    found, asked = ask("And the flow?", answers=['{"question": "What is the flow limit?"}'])
    assert found.question == "What is the flow limit?"
    assert found.note is None
    (request,) = asked
    prompt = request.messages[0].content
    assert "User: What is the pressure limit of the pump?" in prompt
    assert "Assistant: The pressure limit is 12 bar." in prompt
    assert "Question: And the flow?" in prompt
    assert request.json_schema["required"] == ["question"]


@pytest.mark.parametrize(
    "answer",
    ["no JSON", "{}", '{"question": ""}', '{"question": 1}', '{"question": "%s"}' % ("x" * 500)],
    ids=lambda answer: answer[:20],
)
def test_a_model_that_answers_otherwise_is_replaced_by_the_rule(answer):
    found, asked = ask("And the flow?", answers=[answer])
    assert found.question == "What is the pressure limit of the pump? And the flow?"
    assert found.note.startswith("the language model did not make the question standalone")
    assert len(asked) == 1  # it is not asked again


def test_a_model_that_takes_too_long_is_replaced_by_the_rule():
    found, _ = ask("And the flow?", answers=["x"], timeout_s=0.05, delay_s=5)
    assert found.question.endswith("And the flow?")
    assert "no answer within 0.05 s" in found.note


def test_what_a_model_writes_is_one_line_of_text():
    found, _ = ask("And?", answers=['{"question": "What is\\n the \\ud800flow?"}'])
    assert found.question == "What is the ?flow?"


def test_long_turns_are_cut_and_old_ones_left_out():
    turns = [Turn("user", f"turn{number} " + "word " * 5000) for number in range(20)]
    _, asked = ask("And the flow?", turns=turns, answers=['{"question": "x"}'])
    prompt = asked[0].messages[0].content
    assert "turn19" in prompt
    assert "turn11" not in prompt
    assert PROMPTING.count(prompt) < 8 * (TURN_TOKENS + 10) + 200


def test_all_that_a_question_leans_on_is_joined():
    turns = [
        Turn("user", "When does the garden open?"),
        Turn("assistant", "In April."),
        Turn("user", "And the museum?"),
        Turn("assistant", "In May."),
    ]
    assert joined("Why?", turns, 400) == "When does the garden open? And the museum? Why?"


def test_of_many_the_first_and_the_last_are_kept():
    turns = [Turn("user", "When does the garden open?"), *[Turn("user", f"And in {n}?")
             for n in ("June", "July", "August")]]  # fmt: skip
    assert joined("Why?", turns, 400) == "When does the garden open? And in August? Why?"


def test_what_becomes_too_long_loses_its_beginning():
    turns = [Turn("user", "What is the pressure limit " + "of the pump " * 50)]
    assert joined("Why is it low?", turns, 100) == "Why is it low?"
    assert joined("Why?", [Turn("user", " "), Turn("assistant", "Hello")], 100) == "Why?"


def test_the_assistants_words_are_not_joined():
    turns = [*TURNS, Turn("assistant", "Anything else?")]
    assert "Anything" not in joined("And the flow?", turns, 400)
