import asyncio

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
