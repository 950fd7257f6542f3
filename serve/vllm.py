"""A language model in engines of the service's own: vLLM through `ray.serve.llm`.

Requests go to the engine whose cache has the longest beginning of their prompt: questions about the
same passages share it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ray.serve import Application
from ray.serve.handle import DeploymentHandle

from rag_cluster.config import Config
from rag_cluster.errors import ModelError, ServiceError
from rag_cluster.generation import CPU_ENV, cpu_engine
from rag_cluster.models.locate import resolve_model
from rag_cluster.models.ports import Completion, Request
from rag_cluster.models.prompting import PromptTokenizer

NAME = "generator"
DONE = "[DONE]"


def vllm_server(config: Config) -> Application:
    """The deployment of the engines. Raises ConfigError and ModelError where there is no model."""
    from ray.serve.llm import LLMConfig, build_llm_deployment
    from ray.serve.llm.request_router import PrefixCacheAffinityRouter

    generate, replicas = config.generate, config.service.generator
    processors = replicas.gpus == 0
    engine = {"enable_prefix_caching": True, **(cpu_engine() if processors else {})}
    # The model is a folder by now: nothing is to be looked for on the hub.
    env = {"HF_HUB_OFFLINE": "1", **(CPU_ENV if processors else {}), **generate.env}
    bundle = {"CPU": replicas.cpus} | ({} if processors else {"GPU": replicas.gpus})
    return build_llm_deployment(
        LLMConfig(
            model_loading_config={"model_id": NAME, "model_source": model_folder(config)},
            engine_kwargs=engine | generate.engine_kwargs,
            runtime_env={"env_vars": env},
            placement_group_config={"bundles": [bundle]},
            deployment_config={
                # The replica around the engine needs nothing beside what the engine takes.
                "ray_actor_options": {"num_cpus": 0},
                "autoscaling_config": {
                    "min_replicas": replicas.min_replicas,
                    "max_replicas": replicas.max_replicas,
                    "target_ongoing_requests": replicas.target_ongoing_requests,
                },
                "max_ongoing_requests": replicas.max_ongoing_requests,
                "request_router_config": {"request_router_class": PrefixCacheAffinityRouter},
            },
            log_engine_metrics=False,
        )
    )


def model_folder(config: Config) -> str:
    """Where the model lies on this machine. Raises ModelError."""
    assert config.generate.model is not None  # `service_config` has seen to that
    return resolve_model(config.generate.model)


class ServedLLM:
    """`models.ports.LLM` on those engines."""

    def __init__(self, handle: DeploymentHandle, config: Config) -> None:
        self.name = config.generate.model or NAME
        self._handle = handle.options(stream=True)
        self._tokenizer = PromptTokenizer(model_folder(config))

    async def generate(self, request: Request) -> Completion:
        """The whole completion. Raises ServiceError."""
        answers = self._handle.completions.remote(self._asked(request, stream=False))
        try:
            async for answer in answers:
                usage = _known(answer).usage
                return Completion(
                    answer.choices[0].text, usage.prompt_tokens, usage.completion_tokens or 0
                )
        finally:
            answers.cancel()
        raise ServiceError(f"the engine of {self.name!r} answered nothing")

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """Pieces of the completion as they come. Raises ServiceError."""
        batches = self._handle.completions.remote(self._asked(request, stream=True))
        try:
            async for batch in batches:
                for line in batch if isinstance(batch, list) else [batch]:
                    piece = _text_of(_known(line))
                    if piece:
                        yield piece
        finally:  # also when nobody reads on
            batches.cancel()

    async def likelihoods(self, request: Request, choices: Sequence[str]) -> list[float]:
        """Not asked of a generator. Raises ModelError."""
        del request, choices
        raise ModelError("the generator's engines are not asked for likelihoods")

    def _asked(self, request: Request, *, stream: bool) -> Any:
        from ray.serve.llm.openai_api_models import CompletionRequest

        return CompletionRequest(
            model=NAME,
            prompt=self._tokenizer.render(request.messages),
            add_special_tokens=False,  # they stand in the text
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            stop=list(request.stop) or None,
            stream=stream,
        )


def _known(answer: Any) -> Any:
    """The answer, unless it is an error of the engine's. Raises ServiceError."""
    error = getattr(answer, "error", None)
    if error is not None:
        raise ServiceError(f"vLLM: {getattr(error, 'message', error)}")
    return answer


def _text_of(line: str) -> str:
    """The text in a line of a stream: `data: {...}`."""
    data = line.removeprefix("data:").strip()
    if not data or data == DONE:
        return ""
    told = json.loads(data)
    if "error" in told:
        raise ServiceError(f"vLLM: {told['error'].get('message', told['error'])}")
    return "".join(choice.get("text") or "" for choice in told.get("choices", ()))
