"""Generators: sources in, the draft of an answer out, whole or as it comes.

A draft's markers are not checked yet: `rag_cluster.answer.citations` does that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from rag_cluster.answer.extract import extract, render
from rag_cluster.answer.prompt import build_messages
from rag_cluster.answer.sources import NOTHING_FOUND, Source
from rag_cluster.config import Generate, LanguageModel
from rag_cluster.errors import ConfigError, ModelError
from rag_cluster.models.ports import LLM, AsyncEncoder, Request


@dataclass(frozen=True, slots=True)
class Draft:
    """What a generator wrote. Token counts are the engine's own; 0 for the extractive one."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Extractive:
    """Sentences of the sources, picked with the encoder; writes nothing of its own."""

    name = "extractive"

    def __init__(self, config: Generate, encoder: AsyncEncoder, language: str = "english") -> None:
        self._config = config
        self._encoder = encoder
        self._language = language

    async def generate(self, question: str, sources: Sequence[Source]) -> Draft:
        """The picked sentences, each with its marker, a line each; or NOTHING_FOUND."""
        return Draft("\n".join(await self._lines(question, sources)))

    async def stream(self, question: str, sources: Sequence[Source]) -> AsyncIterator[str]:
        """The same, sentence by sentence."""
        for number, line in enumerate(await self._lines(question, sources)):
            yield f"\n{line}" if number else line

    async def _lines(self, question: str, sources: Sequence[Source]) -> list[str]:
        config = self._config
        picks = await extract(
            question,
            sources,
            self._encoder,
            most=config.sentences,
            min_similarity=config.min_similarity,
            language=self._language,
        )
        return render(picks)


class Prompted:
    """A language model that is given the sources as data.

    Without sources it is not asked, and the answer is NOTHING_FOUND.
    """

    def __init__(self, config: Generate, llm: LLM) -> None:
        self._config = config
        self._llm = llm

    @property
    def name(self) -> str:
        """The model's name."""
        return self._llm.name

    async def generate(self, question: str, sources: Sequence[Source]) -> Draft:
        """The model's answer. Raises ServiceError or ModelError; also for an empty answer."""
        if not sources:
            return Draft(NOTHING_FOUND)
        completion = await self._llm.generate(self._request(question, sources))
        text = completion.text.strip()
        if not text:
            raise self._empty()
        return Draft(text, completion.prompt_tokens, completion.completion_tokens)

    async def stream(self, question: str, sources: Sequence[Source]) -> AsyncIterator[str]:
        """The answer in pieces as they come. Raises as `generate` does."""
        if not sources:
            yield NOTHING_FOUND
            return
        spoke = False
        async for piece in self._llm.stream(self._request(question, sources)):
            spoke = spoke or bool(piece.strip())
            yield piece
        if not spoke:
            raise self._empty()

    def _request(self, question: str, sources: Sequence[Source]) -> Request:
        return Request(
            messages=build_messages(question, sources),
            max_tokens=self._config.max_tokens,
            temperature=self._config.temperature,
        )

    def _empty(self) -> ModelError:
        return ModelError(
            f"the model {self.name!r} gave an empty answer: raise generate.max_tokens "
            f"({self._config.max_tokens}), lower answer.budget_tokens, or try another model"
        )


Generator = Extractive | Prompted


def load_generator(
    config: Generate, encoder: AsyncEncoder, llm: LLM | None = None, language: str = "english"
) -> Generator:
    """The generator of the configuration. `llm` takes the place of the configured model.

    `language` is that of the index's analyzer: the extractive generator compares words as it does.

    Raises ModelError where the model cannot be loaded.
    """
    if config.kind == "extractive":
        return Extractive(config, encoder, language)
    if llm is None:
        from rag_cluster.models.llm import load_llm

        llm = load_llm(language_model(config), "generate")
    return Prompted(config, llm)


def language_model(config: Generate) -> LanguageModel:
    """The language model that writes the answers.

    Raises ConfigError where there is none, or where only the query service has it.
    """
    if config.kind == "extractive":
        raise ConfigError("generate.kind is extractive, which has no language model")
    if config.kind == "vllm":
        raise ConfigError(
            "generate.kind is vllm: the query service runs its engines ('rag-cluster serve'); "
            "elsewhere start 'vllm serve', and set generate.kind to openai and generate.base_url"
        )
    return LanguageModel(
        engine=config.kind,
        model=config.model,
        base_url=config.base_url,
        api_key_env=config.api_key_env,
        timeout_s=config.timeout_s,
        retries=config.retries,
    )
