import asyncio
import contextlib
import math

import pytest
import tiny_models

from rag_cluster.config import LanguageModel
from rag_cluster.errors import ModelError
from rag_cluster.models.llm import load_llm
from rag_cluster.models.ports import Message, Request

TEMPLATE = "{% for m in messages %}{{ m.content }} {% endfor %}the"


@pytest.fixture(scope="module")
def llm(tmp_path_factory):
    model = tiny_models.save_language_model(tmp_path_factory.mktemp("lm"))
    made = load_llm(LanguageModel(engine="transformers", model=model))
    yield made
    made.close()


def ask(text, **more):
    return Request((Message("system", "the"), Message("user", text)), **more)


def test_the_likeliest_tokens_are_the_same_each_time(llm):
    one, two = (asyncio.run(llm.generate(ask("the cat", max_tokens=6))) for _ in range(2))
    assert one == two
    assert one.completion_tokens == 6
    assert one.prompt_tokens == 3


def test_a_stop_string_ends_the_answer_before_it(llm):
    whole = asyncio.run(llm.generate(ask("the cat", max_tokens=6))).text
    stop = whole.split()[-1]
    before = whole[: whole.index(stop)]
    if before.strip():
        cut = asyncio.run(llm.generate(ask("the cat", max_tokens=6, stop=(stop,)))).text
        assert cut == before


def test_the_chat_template_is_used_where_there_is_one(tmp_path):
    model = tiny_models.save_language_model(tmp_path, TEMPLATE)
    llm = load_llm(LanguageModel(engine="transformers", model=model))
    done = asyncio.run(llm.generate(ask("cat", max_tokens=2)))
    llm.close()
    assert done.prompt_tokens == 3  # the cat the


def test_a_prompt_beyond_the_window_is_refused(llm):
    with pytest.raises(ModelError, match="more than the window"):
        asyncio.run(llm.generate(ask("cat " * 60, max_tokens=6)))


def test_who_stops_listening_ends_the_generation(llm):
    async def first_piece():
        stream = llm.stream(ask("the cat", max_tokens=40))
        piece = await anext(stream)
        await stream.aclose()
        return piece

    assert asyncio.run(first_piece())
    assert asyncio.run(llm.generate(ask("the cat", max_tokens=2))).text


def test_who_stops_waiting_ends_the_generation(llm):
    async def run():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.001):
                await llm.generate(ask("the cat", max_tokens=50))
        return await llm.generate(ask("the cat", max_tokens=2))

    assert asyncio.run(run()).text


def test_likelihoods_are_those_of_the_next_token(llm):
    """Over all words they add up to one, and the likeliest is the one that is said."""
    request = ask("the cat", max_tokens=1)
    words = [word for word in tiny_models.WORDS if word.isalpha()]
    found = asyncio.run(llm.likelihoods(request, words))
    said = asyncio.run(llm.generate(request)).text.strip()
    assert words[found.index(max(found))] == said or not said.isalpha()
    special = 1 - sum(math.exp(log) for log in found)
    assert 0 <= special < 1


def test_likelihoods_of_what_is_no_token_are_refused(llm):
    with pytest.raises(ModelError, match="'yes' is no token"):
        asyncio.run(llm.likelihoods(ask("the cat"), ("yes", "no")))


def test_likelihoods_need_a_prompt_within_the_window(llm):
    with pytest.raises(ModelError, match="more than the window"):
        asyncio.run(llm.likelihoods(ask("cat " * 80, max_tokens=1), ("cat", "dog")))
