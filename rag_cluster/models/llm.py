"""Language models: any server with OpenAI's chat API, or a local causal model."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import dataclasses
import math
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from rag_cluster.config import LanguageModel
from rag_cluster.errors import ConfigError, RefusedError, ServiceError
from rag_cluster.models.ports import LLM, Completion, Request

# Seconds before the first retry; doubled for each further one, up to the longest.
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 20.0
# The most tokens that servers list with their likelihoods.
_LISTED_TOKENS = 20

Result = TypeVar("Result")


def load_llm(config: LanguageModel, section: str = "llm") -> LLM:
    """The language model of `llm` (or of another `section` that has its keys), for requests.

    Raises ConfigError where there is none, a key is missing, or the engine is for batches alone;
    ModelError where a local model is not found.
    """
    match config.engine:
        case "none":
            raise ConfigError(
                f"this needs a language model: set {section}.engine and {section}.model"
            )
        case "vllm":
            raise ConfigError(
                f"{section}.engine is vllm, which runs in batches at ingest: for queries start "
                f"'vllm serve' and set {section}.engine to openai and {section}.base_url to it"
            )
        case "fake":
            from rag_cluster.models.fakes import EchoLLM

            return EchoLLM()
    if config.model is None:
        raise ConfigError(f"a language model of {config.engine}: name it in {section}.model")
    if config.engine == "openai":
        return OpenAIChat(config, section)
    from rag_cluster.models.causal import TransformersLLM

    return TransformersLLM(config.model, revision=config.revision, window=config.window)


class OpenAIChat:
    """A model behind OpenAI's chat completions API: vLLM, Ollama, or a hosted one.

    At most `concurrency` requests run at a time; others wait for their turn. Timeouts, lost
    connections, 429 and 5xx are tried again `retries` times, after a wait that doubles and is drawn
    at random up to its bound ("full jitter"), or that the server asks for in Retry-After. A stream
    is tried again only until its first piece has come.
    """

    def __init__(self, config: LanguageModel, section: str = "llm") -> None:
        import openai

        self.name = config.model or ""
        self._section = section
        key = os.environ.get(config.api_key_env)
        if key is None and config.base_url is None:
            raise ConfigError(
                f"{config.model!r} behind OpenAI's API: set {section}.base_url to your server, or "
                f"the environment variable {config.api_key_env} for the hosted service"
            )
        self._key = key
        self._retries = config.retries
        self._where = f"{config.model!r} at {config.base_url or 'the hosted service'}"
        self._timeout_s = config.timeout_s
        self._turn = asyncio.Semaphore(config.concurrency)
        self._client = openai.AsyncOpenAI(
            # Servers of one's own take any key; the client insists on having one.
            api_key=key or "none",
            base_url=config.base_url,
            timeout=config.timeout_s,
            max_retries=0,
        )

    async def generate(self, request: Request) -> Completion:
        """The whole completion. Raises ServiceError after the retries, or where it is empty."""

        async def call() -> Any:
            return await self._client.chat.completions.create(**self._arguments(request))

        with self._understood():
            answer = await self._retried(call)
            text = answer.choices[0].message.content if answer.choices else None
            if not text:
                reason = answer.choices[0].finish_reason if answer.choices else "no choices"
                raise ServiceError(f"{self._where} answered without text ({reason})")
            usage = answer.usage
            cached = getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", 0)
            return Completion(
                _Pieces().add(text),
                _count(getattr(usage, "prompt_tokens", 0)),
                _count(getattr(usage, "completion_tokens", 0)),
                _count(cached),
            )

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """Pieces of the completion as they come. Raises ServiceError as `generate` does."""
        import openai

        async def call() -> Any:
            return await self._client.chat.completions.create(
                **self._arguments(request), stream=True
            )

        with self._understood():
            pieces = await self._retried(call)
        came, text = False, _Pieces()
        try:
            while True:
                with self._understood():
                    piece = await anext(pieces, None)
                    if piece is None:
                        break
                    part = text.add(piece.choices[0].delta.content or "") if piece.choices else ""
                if part:
                    came = True
                    yield part
        except openai.OpenAIError as error:
            raise ServiceError(
                f"{self._where} broke off its answer: {self._reason(error)}"
            ) from error
        finally:
            await pieces.close()
        if not came:
            raise ServiceError(f"{self._where} answered without text")

    async def likelihoods(self, request: Request, choices: Sequence[str]) -> list[float]:
        """Logarithms of the choices' probabilities; -inf for one that the server does not list.

        A server lists the likeliest tokens alone. Raises ServiceError where it lists none.
        """
        arguments = self._arguments(dataclasses.replace(request, max_tokens=1))

        async def call() -> Any:
            return await self._client.chat.completions.create(
                **arguments, logprobs=True, top_logprobs=_LISTED_TOKENS
            )

        with self._understood():
            answer = await self._retried(call)
            given = answer.choices[0].logprobs if answer.choices else None
            if given is None or not given.content or not given.content[0].top_logprobs:
                raise ServiceError(
                    f"{self._where} gives no likelihoods of tokens (logprobs), which rerank.kind "
                    "pointwise_llm needs: use listwise_llm, or a server that gives them, such as "
                    "vLLM"
                )
            first = given.content[0].top_logprobs
            listed = [(one.token.strip().lower(), one.logprob) for one in first]
            return [
                _log_sum(log for token, log in listed if token == choice.lower())
                for choice in choices
            ]

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._client.close()

    def _arguments(self, request: Request) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.name,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
        }
        if request.stop:
            arguments["stop"] = list(request.stop)
        if request.json_schema is not None:
            arguments["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": dict(request.json_schema)},
            }
        return arguments

    @contextlib.contextmanager
    def _understood(self) -> Iterator[None]:
        """Raises ServiceError for an answer that is no completion: the client checks no types."""
        try:
            yield
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise ServiceError(
                f"{self._where} answered what is no chat completion "
                f"({type(error).__name__}: {str(error)[:200]})"
            ) from error

    async def _retried(self, call: Callable[[], Awaitable[Result]]) -> Result:
        import openai

        for attempt in range(self._retries + 1):
            try:
                # The client's own timeout is per read: a server that trickles would hold us.
                async with self._turn:
                    return await asyncio.wait_for(call(), self._timeout_s)
            except (openai.OpenAIError, TimeoutError) as error:
                last = error
                if not _passing(error):
                    break
            if attempt < self._retries:
                await asyncio.sleep(_wait_s(last, attempt))
        if getattr(last, "status_code", None) in (401, 403, 404):
            raise RefusedError(f"{self._where} refused: {self._reason(last)}") from last
        tries = "" if not _passing(last) else f" after {attempt + 1} tries"
        raise ServiceError(f"{self._where} failed{tries}: {self._reason(last)}") from last

    def _reason(self, error: Exception) -> str:
        import openai

        if isinstance(error, openai.APITimeoutError | TimeoutError):
            return f"no answer in time ({self._section}.timeout_s)"
        if isinstance(error, openai.APIStatusError):
            told = " ".join(str(error.message).split())
            if self._key:  # some servers quote the key that they refuse, and others read this
                told = told.replace(self._key, "***")
            return f"HTTP {error.status_code}: {told[:300]}"
        return " ".join(str(error).split())[:300] or type(error).__name__


class _Pieces:
    """Text that comes in pieces: halves of a surrogate pair are joined, or become U+FFFD."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")

    def add(self, piece: str) -> str:
        """What is whole with this piece. Raises TypeError for what is no text."""
        if not isinstance(piece, str):
            raise TypeError(f"the content is of type {type(piece).__name__}")
        return self._decoder.decode(piece.encode("utf-16-le", "surrogatepass"))


def _count(tokens: Any) -> int:
    """A count of tokens as a server gives it; 0 for anything else."""
    return tokens if isinstance(tokens, int) and tokens > 0 else 0


def _log_sum(logarithms: Iterable[float]) -> float:
    """The logarithm of the sum of probabilities that are given by their logarithms."""
    total = math.fsum(math.exp(log) for log in logarithms)
    return math.log(total) if total > 0 else -math.inf


def _passing(error: Exception) -> bool:
    """Whether the same request may succeed a little later."""
    import openai

    if isinstance(error, openai.APIStatusError):
        return error.status_code in (408, 409, 429) or error.status_code >= 500
    return isinstance(error, openai.APIConnectionError | TimeoutError)


def _wait_s(error: Exception, attempt: int) -> float:
    response: Any = getattr(error, "response", None)
    asked = response.headers.get("retry-after", "") if response is not None else ""
    try:
        return min(max(float(asked), 0.0), _LONGEST_WAIT_S)
    except ValueError:
        bound = min(_FIRST_WAIT_S * 2**attempt, _LONGEST_WAIT_S)
        return random.uniform(0, bound)  # noqa: S311 - jitter, not a secret
