from __future__ import annotations

import pytest

from rag_cluster import config
from rag_cluster.chunk.window import check_sparse_window, check_window
from rag_cluster.errors import ConfigError


def test_the_defaults_fit_the_packaged_encoder() -> None:
    check_window(config.Config(), 256)  # 180 + 20 + 2


def test_a_chunk_that_would_be_cut_is_an_error_with_its_numbers() -> None:
    tree = config.build({"chunk": {"size": 240}})
    with pytest.raises(ConfigError, match=r"reads 256 .* are 262.* chunk.size to at most 234"):
        check_window(tree, 256)
    check_window(config.build({"chunk": {"size": 234}}), 256)


def test_without_context_there_is_more_room() -> None:
    check_window(config.build({"chunk": {"size": 254}, "enrich": {"kind": "none"}}), 256)


def test_a_prefix_takes_its_tokens() -> None:
    embed = {"passage_prefix": "passage: "}  # 2 tokens
    check_window(config.build({"chunk": {"size": 232}, "embed": embed}), 256)
    with pytest.raises(ConfigError, match=r"passage_prefix \(2\)"):
        check_window(config.build({"chunk": {"size": 233}, "embed": embed}), 256)


def test_a_window_smaller_than_the_context() -> None:
    with pytest.raises(ConfigError, match=r"make chunk\.size, enrich\.max_tokens"):
        check_window(config.Config(), 16)


def test_late_chunking_reads_no_context() -> None:
    check_window(config.build({"chunk": {"size": 254}, "embed": {"mode": "late"}}), 256)


def test_chunks_must_fit_the_sparse_model_too() -> None:
    # A fake has no prefix: 180 + 20 + 2. In late chunking it reads the context, unlike the encoder.
    for mode in ("passage", "late"):
        tree = config.build({"sparse": {"model": "fake:9"}, "embed": {"mode": mode}})
        check_sparse_window(tree, 202)
        with pytest.raises(ConfigError, match=r"'fake:9' reads 201 tokens .* are 202: "):
            check_sparse_window(tree, 201)
