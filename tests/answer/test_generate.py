import asyncio
from collections.abc import AsyncIterator

import pytest
from answer_samples import BagOfWords, source

from rag_cluster.answer.generate import Extractive, Prompted, load_generator
from rag_cluster.answer.sources import NOTHING_FOUND
from rag_cluster.config import Generate
from rag_cluster.errors import ModelError, ServiceError
from rag_cluster.models.ports import Completion, Request

SOURCES = [source("The battery lasts 14 hours in use. Charging needs two."), source("Oil.", 2)]
QUESTION = "How long does the battery last in use?"


class Scripted:
    """A language model that says what it was told to, or fails."""

    name = "scripted"

    def __init__(self, *pieces: str, failure: Exception | None = None) -> None:
        self.pieces = pieces
        self.failure = failure
        self.requests: list[Request] = []

    async def generate(self, request: Request) -> Completion:
        self.requests.append(request)
        if self.failure:
            raise self.failure
        return Completion("".join(self.pieces), 7, 3)

    async def stream(self, request: Request) -> AsyncIterator[str]:
        self.requests.append(request)
        for piece in self.pieces:
            yield piece
        if self.failure:
            raise self.failure


def collect(generator, sources=SOURCES) -> list[str]:
    async def run():
        return [piece async for piece in generator.stream(QUESTION, sources)]

    return asyncio.run(run())


def whole(generator, sources=SOURCES) -> str:
    return asyncio.run(generator.generate(QUESTION, sources)).text


def test_the_configuration_chooses_the_generator():
    assert isinstance(load_generator(Generate(), BagOfWords()), Extractive)
    chosen = load_generator(Generate(kind="openai"), BagOfWords(), Scripted("x"))
    assert isinstance(chosen, Prompted)
    assert chosen.name == "scripted"


def test_extractive_whole_and_streamed_are_the_same():
    generator = Extractive(Generate(min_similarity=0.2), BagOfWords())
    assert whole(generator) == "".join(collect(generator))
    assert whole(generator).startswith("The battery lasts 14 hours in use. [1]")


def test_extractive_says_that_it_found_nothing():
    generator = Extractive(Generate(), BagOfWords())
    assert whole(generator, []) == NOTHING_FOUND
    assert collect(generator, []) == [NOTHING_FOUND]


def test_a_model_is_asked_with_the_settings_and_its_tokens_are_counted():
    llm = Scripted("  It lasts 14 hours. [1]\n")
    generator = Prompted(Generate(kind="openai", max_tokens=9, temperature=0.5), llm)
    draft = asyncio.run(generator.generate(QUESTION, SOURCES))
    assert (draft.text, draft.prompt_tokens, draft.completion_tokens) == (
        "It lasts 14 hours. [1]",
        7,
        3,
    )
    assert (llm.requests[0].max_tokens, llm.requests[0].temperature) == (9, 0.5)
    assert [message.role for message in llm.requests[0].messages] == ["system", "user"]


def test_a_model_is_not_asked_without_sources():
    llm = Scripted("An invention.")
    assert whole(Prompted(Generate(kind="openai"), llm), []) == NOTHING_FOUND
    assert collect(Prompted(Generate(kind="openai"), llm), []) == [NOTHING_FOUND]
    assert llm.requests == []


def test_pieces_are_passed_on_as_they_come():
    assert collect(Prompted(Generate(kind="openai"), Scripted("It ", "lasts."))) == [
        "It ",
        "lasts.",
    ]


@pytest.mark.parametrize("said", [(), (" ", "\n")])
def test_an_empty_answer_is_an_error(said):
    generator = Prompted(Generate(kind="openai"), Scripted(*said))
    with pytest.raises(ModelError, match="'scripted' gave an empty answer"):
        whole(generator)
    with pytest.raises(ModelError, match="empty answer"):
        collect(generator)


def test_a_failure_is_raised_and_no_excuse_takes_its_place():
    generator = Prompted(Generate(kind="openai"), Scripted(failure=ServiceError("429 from x")))
    with pytest.raises(ServiceError, match="429"):
        whole(generator)
    with pytest.raises(ServiceError, match="429"):
        collect(generator)
