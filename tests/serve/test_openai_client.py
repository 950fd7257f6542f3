"""The official client of OpenAI against the service: completions, streams, models, embeddings."""

import openai
import pytest
from api_service import running

QUESTION = {"role": "user", "content": "How fast does the acme rotor turn?"}


@pytest.fixture(scope="module")
def official(service):
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_a_completion_is_the_answer_with_citations_beside_it(official):
    found = official.chat.completions.create(model="rag-cluster", messages=[QUESTION])
    assert found.object == "chat.completion"
    assert found.id.startswith("chatcmpl-")
    choice = found.choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.role == "assistant"
    assert "4000 rounds per minute" in choice.message.content
    assert found.usage is None  # the extractive generator has no tokens
    assert found.citations[0]["quote"]
    assert found.hits[0]["channels"]
    assert found.version == "v000001"
    assert found.question == QUESTION["content"]
    assert found._request_id == found.id.removeprefix("chatcmpl-")


def test_a_stream_comes_in_pieces_and_its_last_chunk_has_the_citations(official):
    stream = official.chat.completions.create(
        model="any", messages=[QUESTION], stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert "4000 rounds per minute" in text
    last = chunks[-1]
    assert last.choices[0].finish_reason == "stop"
    assert last.citations[0]["quote"]
    assert last.guardrails["injection"]
    assert len({chunk.id for chunk in chunks}) == 1


def test_settings_of_the_search_go_as_extra_body(official):
    found = official.chat.completions.create(
        model="rag-cluster",
        messages=[{"role": "user", "content": "How many boats were sold?"}],
        extra_body={"filter": {"year": 2020, "tenant": "globex"}, "top_k": 2},
    )
    assert {hit["title"] for hit in found.hits} == {"globex report 2020"}


def test_what_plays_no_part_is_said(official):
    found = official.chat.completions.create(
        model="rag-cluster",
        messages=[
            {"role": "system", "content": "Answer in rhymes."},
            {"role": "user", "content": [{"type": "text", "text": QUESTION["content"]},
             {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]},
        ],
        stop=["x"], top_p=0.5, user="somebody",
    )  # fmt: skip
    assert found.notes[:3] == [
        "not used: stop, top_p",
        "messages not used: those of system",
        "parts of messages not used: those that are no text",
    ]


def test_the_models_are_one(official):
    assert [model.id for model in official.models.list()] == ["rag-cluster"]
    assert official.models.retrieve("rag-cluster").owned_by == "rag-cluster"
    with pytest.raises(openai.NotFoundError) as failed:
        official.models.retrieve("gpt")
    assert failed.value.code == "model_not_found"


def test_embeddings_as_numbers_and_as_base64_are_the_same(official):
    texts = ["the acme rotor", "rounds per minute of a rotor"]
    plain = official.embeddings.create(model="any", input=texts, encoding_format="float")
    packed = official.embeddings.create(model="any", input=texts)  # the client asks for base64
    assert [one.index for one in plain.data] == [0, 1]
    assert len(plain.data[0].embedding) == 64
    for number, one in enumerate(plain.data):
        assert one.embedding == pytest.approx(packed.data[number].embedding, abs=1e-7)
    # 3 and 6 words, and two special tokens each.
    assert plain.usage.prompt_tokens == plain.usage.total_tokens == 13
    one = official.embeddings.create(model="any", input=texts[0], dimensions=64)
    assert one.usage.total_tokens == 5


def test_a_text_that_is_cut_is_said_and_not_counted_whole(official):
    found = official.embeddings.create(model="any", input=["word " * 1000, "word"])
    assert found.usage.total_tokens == 256 + 3
    assert found.notes == ["1 texts were cut at the encoder's 256 tokens"]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input.1"),
        ({"input": ["a"] * 257}, "input"),
        ({"input": [[1, 2]]}, "input.0"),
        ({"input": "a", "dimensions": 32}, "dimensions"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_embeddings_of_what_has_none(official, given, param):
    with pytest.raises(openai.BadRequestError) as failed:
        official.embeddings.create(model="any", **given)
    assert failed.value.param == param


@pytest.mark.parametrize(
    "messages",
    [[], [{"role": "system", "content": "x"}], [{"role": "user", "content": " "}], [{"role": "x"}]],
)
def test_a_conversation_without_a_question(official, messages):
    with pytest.raises(openai.BadRequestError) as failed:
        official.chat.completions.create(model="any", messages=messages)
    assert failed.value.type == "invalid_request_error"


def test_two_answers_are_not_to_be_had(official):
    with pytest.raises(openai.BadRequestError) as failed:
        official.chat.completions.create(model="any", messages=[QUESTION], n=2)
    assert failed.value.param == "n"


def test_errors_are_those_of_the_client(keyed, keys):
    base = f"{keyed.url}/v1"
    with openai.OpenAI(base_url=base, api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError) as failed:
            client.models.list()
        assert failed.value.code == "invalid_api_key"
    with openai.OpenAI(base_url=base, api_key=keys["acme"], max_retries=0) as client:
        found = client.chat.completions.create(model="any", messages=[QUESTION])
        assert found.citations


def test_a_stream_that_fails_raises(tenants, tmp_path):
    settings = ("generate.kind=openai", "generate.model=m", "generate.retries=0",
                "generate.base_url=http://127.0.0.1:9/v1")  # fmt: skip
    with (
        running(tenants, *settings) as found,
        openai.OpenAI(base_url=f"{found.url}/v1", api_key="none", max_retries=0) as client,
    ):
        stream = client.chat.completions.create(model="any", messages=[QUESTION], stream=True)
        with pytest.raises(openai.APIError) as failed:
            list(stream)
        assert failed.value.code == "model_failed"
        with pytest.raises(openai.InternalServerError) as failed:
            client.chat.completions.create(model="any", messages=[QUESTION])
        assert failed.value.status_code == 502
