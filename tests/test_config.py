import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rag_cluster import config
from rag_cluster.errors import ConfigError


def test_rendered_defaults_are_read_back_and_every_key_has_its_comment() -> None:
    text = config.render(config.Config())
    assert config.build(yaml.safe_load(text)) == config.Config()
    lines = text.splitlines()
    keys = [i for i, line in enumerate(lines) if not line.lstrip().startswith("#")]
    assert all(lines[i - 1].lstrip().startswith("# ") for i in keys)


def test_settings_take_yaml_values_over_the_file(tmp_path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("chunk: {size: 100, overlap: 5}\n")
    made = config.load(path, ["chunk.size=64", "retrieve.channels=[bm25]", "embed.dim=null"])
    assert (made.chunk.size, made.chunk.overlap) == (64, 5)
    assert made.retrieve.channels == ("bm25",)
    assert made.embed.dim is None


def test_base_is_below_the_file_and_metadata_fields_are_replaced_whole() -> None:
    base = {"metadata": {"fields": {"year": "int"}}, "chunk": {"size": 64, "overlap": 3}}
    made = config.load(None, ["metadata.fields={company: keyword}", "chunk.overlap=4"], base)
    assert made.metadata.fields == {"company": "keyword"}
    assert (made.chunk.size, made.chunk.overlap) == (64, 4)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("chunk.szie=3", "did you mean 'chunk.size'?"),
        ("retreive.top_k=3", "did you mean 'retrieve'?"),
        ("chunk.size=abc", "'chunk.size'"),
        ("chunk.size", "key.path=VALUE"),
        ("chunk.size=[1", "not a YAML value"),
        ("embed.model=2020-13-45", "not a YAML value"),
        ("chunk.overlap=500", "must be smaller than size"),
        ("rerank.kind=cross_encoder", "set rerank.model"),
        ("rerank.kind=cascade", "rerank.stages is empty"),
        ("rerank.kind=colbert", "the reranker colbert needs a model"),
        ("rerank.kind=pointwise_llm", "pointwise_llm needs a language model: set llm.engine"),
        (
            "rerank={kind: cascade, stages: [{kind: listwise_llm}]}",
            "the reranker listwise_llm needs",
        ),
        ("rerank.window=10", "step (10) must be smaller than window (10)"),
        ("transform.kind=step_back", "step_back needs a language model: set llm.engine"),
        ("metadata.fields={text: keyword}", "'text' cannot be a metadata field"),
        ("max_failed_fraction=1.5", "less than or equal to 1"),
    ],
)
def test_a_mistake_is_named(setting: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(None, [setting])
    assert said in str(caught.value)


@pytest.mark.parametrize("kind", ["hyde", "feedback", "feedback_llm"])
def test_a_transform_needs_the_channel_that_it_is_for(kind: str) -> None:
    other = "bm25" if kind == "hyde" else "dense"
    settings = [f"transform.kind={kind}", "llm.engine=fake"]
    with pytest.raises(ConfigError, match=rf"{kind}.*retrieve\.channels is \[{other}\]"):
        config.load(None, [*settings, f"retrieve.channels=[{other}]"])
    assert config.load(None, settings).transform.kind == kind


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([], "chunk.strategy is proposition, which needs a language model: set llm.engine"),
        (["llm.engine=fake", "enrich=contextual"], "Set enrich.kind to heading or none"),
        (["llm.engine=fake", "embed.mode=late"], "Set embed.mode to passage"),
    ],
)
def test_facts_need_a_model_and_stand_alone(settings: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config.load(None, ["chunk.strategy=proposition", *settings])
    made = config.load(None, ["chunk.strategy=proposition", "llm.engine=fake"])
    assert made.writes == "facts"


def test_a_file_that_is_absent_or_no_yaml_is_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        config.load(tmp_path / "none.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("chunk: [")
    with pytest.raises(ConfigError, match="is not YAML"):
        config.load(broken)
    broken.write_text("- chunk")
    with pytest.raises(ConfigError, match="must hold sections"):
        config.load(broken)


@given(size=st.integers(21, 500))
def test_fingerprint_is_equal_exactly_for_equal_settings(size: int) -> None:
    one, other = config.Chunk(size=size), config.Chunk(size=size + 1)
    assert config.fingerprint(one) == config.fingerprint(config.Chunk(size=size))
    assert config.fingerprint(one) != config.fingerprint(other)
