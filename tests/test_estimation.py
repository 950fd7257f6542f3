from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rag_cluster import config
from rag_cluster.cli import app
from rag_cluster.errors import SourceError
from rag_cluster.estimation import Counted, Rates, estimate, stages

SETTINGS = ["embed.model=fake:256", "chunk.strategy=fixed", "chunk.size=20", "chunk.min_size=0",
            "enrich.context_tokens=30", "llm.engine=fake", "llm.window=4000"]  # fmt: skip


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(8):
        words = " ".join(f"word{i}" for i in range(100))
        (folder / f"{number}.txt").write_text(f"Text {number}. {words}")
    return folder


def test_hours_and_cost_by_hand() -> None:
    counted = Counted(
        documents=2, chunks=10, embed_tokens=1000, prompts=10, prompt_tokens=9000,
        cached_tokens=6000, answer_tokens=500, seconds={"parse": 1.8, "chunk": 0.9, "embed": 3.6},
    )  # fmt: skip
    rates = Rates(prompt=100, answer=50, price_prompt=2, price_cached=0.5, price_answer=8)
    made = {row["stage"]: row for row in stages(counted, 1000, rates)}
    assert made["parse"]["hours"] == pytest.approx(1.8 * 1000 / 3600)
    assert (made["embed"]["rows"], made["embed"]["tokens"]) == (10_000, 1_000_000)
    # 3,000,000 prompt tokens to compute, 6,000,000 cached, 500,000 to write
    cached = made["contexts, with cache"]
    assert cached["hours"] == pytest.approx((30_000 + 10_000) / 3600, abs=1e-4)
    assert cached["cost"] == pytest.approx(3 * 2 + 6 * 0.5 + 0.5 * 8)
    without = made["contexts, without cache"]
    assert without["hours"] == pytest.approx((90_000 + 10_000) / 3600, abs=1e-4)
    assert without["cost"] == pytest.approx(9 * 2 + 0.5 * 8)


def test_sparse_vectors_are_a_stage_of_their_own(source: Path) -> None:
    made = config.load(None, [*SETTINGS, "sparse.model=fake:1000"])
    stages = {row["stage"]: row for row in estimate([str(source)], made, Rates())["stages"]}
    assert list(stages) == ["parse", "chunk", "embed", "sparse"]
    assert stages["sparse"]["rows"] == 48
    assert stages["sparse"]["hours"] is not None


def test_without_a_rate_nothing_is_invented() -> None:
    counted = Counted(prompts=1, prompt_tokens=9, answer_tokens=1,
                      seconds={"parse": 0, "chunk": 0, "embed": 0})  # fmt: skip
    made = stages(counted, 1, Rates())
    assert {(row["hours"], row["cost"]) for row in made[3:]} == {(None, None)}


def test_a_sample_says_what_all_files_take(source: Path) -> None:
    made = config.load(None, [*SETTINGS, "enrich.kind=contextual"])
    whole = estimate([str(source)], made, Rates(), sample=0)
    part = estimate([str(source)], made, Rates(), sample=3)
    assert whole["documents"] == part["documents"] == 8
    # 102 words in chunks of 20 are 6 chunks, each with a prompt of its own.
    assert whole["chunks"] == part["chunks"] == 48
    assert whole["tokens"]["answers_at_most"] == 48 * 30
    tokens = whole["tokens"]
    assert tokens["prompts_with_cache"] < 0.6 * tokens["prompts_without_cache"]
    assert part["tokens"]["prompts_without_cache"] == pytest.approx(
        tokens["prompts_without_cache"], rel=0.01
    )
    assert part["sample"]["files"] == 3


def test_facts_are_asked_for_and_expected_in_place_of_chunks(source: Path) -> None:
    own = ["chunk.strategy=proposition", "chunk.proposition.answer_tokens=50"]
    made = config.load(None, [*SETTINGS, *own, "chunk.size=24"])
    found = estimate([str(source)], made, Rates(prompt=1000), sample=0)
    # Each text is 103 tokens, in six chunks of 24 at most: about one fact for twelve tokens.
    assert found["tokens"]["answers_at_most"] == 8 * 6 * 50
    assert found["chunks"] == found["facts"]
    assert 8 * 7 <= found["facts"] <= 8 * 11
    assert found["tokens"]["embed"] == pytest.approx(8 * 103 * 1.2, rel=0.01)
    stages = {row["stage"]: row for row in found["stages"]}
    assert stages["facts, with cache"]["rows"] == 48
    assert 0 < stages["facts, with cache"]["hours"] < stages["facts, without cache"]["hours"]


def test_the_command_prints_one_json_object(source: Path) -> None:
    words = [word for setting in SETTINGS for word in ("--set", setting)]
    done = CliRunner().invoke(app, ["estimate", str(source), *words, "--json"])
    found = json.loads(done.stdout)
    assert [row["stage"] for row in found["stages"]] == ["parse", "chunk", "embed"]
    assert found["tokens"]["prompts_without_cache"] == 0
    shown = CliRunner().invoke(app, ["estimate", str(source), *words])
    assert "48 chunks" in shown.stdout


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    with pytest.raises(SourceError, match="none of the 1 files of the sample"):
        estimate([str(tmp_path)], config.load(None, SETTINGS), Rates())
