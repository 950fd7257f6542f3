"""Conversations to the tokens that a local language model reads, and texts cut to fit its window.

A model that was tuned on conversations has a chat template, which writes the turns and the special
tokens. A base model has none: its prompt is the turns' text, with the token that begins a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rag_cluster.config import Config
from rag_cluster.errors import ModelError
from rag_cluster.models.locate import resolve_model
from rag_cluster.models.ports import Message
from rag_cluster.models.tokenizer import load_tokenizer

# Tokens that a server's chat template may add to a conversation.
_TEMPLATE_TOKENS = 32
_UNKNOWN_WINDOW = 8192


class Counter(Protocol):
    """What counts tokens of texts, and cuts texts at tokens."""

    def count(self, text: str) -> int:
        """The tokens of a text, without special ones."""

    def first(self, text: str, most: int) -> str:
        """The beginning of a text, of at most `most` tokens."""


class PromptTokenizer:
    """The tokenizer of a causal model in a local folder.

    `window` is what the model reads and writes together, in tokens; None where it does not say.
    Raises ModelError where the folder holds no tokenizer.
    """

    def __init__(self, folder: str) -> None:
        import transformers

        try:
            self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise ModelError(f"{folder} holds no tokenizer that can be loaded: {reason}") from error
        self.window: int | None = _window(folder)

    def encode(self, messages: Sequence[Message]) -> list[int]:
        """The token ids of a conversation up to where the model's answer begins."""
        turns = [{"role": message.role, "content": message.content} for message in messages]
        if self.tokenizer.chat_template:
            text = self.tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True
            )
            # The template writes the special tokens itself.
            ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
            return ids
        ids = self.tokenizer("\n\n".join(message.content for message in messages))["input_ids"]
        begin = self.tokenizer.bos_token_id
        if begin is not None and ids[:1] != [begin]:
            ids.insert(0, begin)
        return ids

    def render(self, messages: Sequence[Message]) -> str:
        """The same as text, in which special tokens stand in writing."""
        turns = [{"role": message.role, "content": message.content} for message in messages]
        if self.tokenizer.chat_template:
            text: str = self.tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True
            )
            return text
        begin = self.tokenizer.bos_token or ""
        return begin + "\n\n".join(message.content for message in messages)

    def count(self, text: str) -> int:
        """The tokens of a text, without special ones."""
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def first(self, text: str, most: int) -> str:
        """The beginning of a text, of at most `most` tokens."""
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        offsets = encoded["offset_mapping"]
        return text if len(offsets) <= most else text[: offsets[most][0]]


class _Estimate:
    """Counts with the tokenizer of an encoder, for a model behind a server."""

    def __init__(self, model: str, revision: str | None) -> None:
        self._tokenizer = load_tokenizer(model, revision)

    def count(self, text: str) -> int:
        return self._tokenizer.count([text])[0]

    def first(self, text: str, most: int) -> str:
        spans = self._tokenizer.spans(text)
        return text if len(spans) <= most else text[: spans[most][0]]


class Prompting:
    """How prompts of the configured language model are counted and cut: `llm`.

    `window` (tokens of prompt and completion) is `llm.window`, else the model's own. `local` is the
    tokenizer of a local model; None for one behind a server, of which the counts are estimates.
    """

    def __init__(self, config: Config) -> None:
        llm = config.llm
        self.local: PromptTokenizer | None = None
        counter: Counter
        if llm.engine in ("transformers", "vllm") and llm.model is not None:
            self.local = counter = PromptTokenizer(resolve_model(llm.model, llm.revision))
        elif llm.tokenizer is not None:
            counter = PromptTokenizer(resolve_model(llm.tokenizer))
        else:
            counter = _Estimate(config.embed.model, config.embed.revision)
        self.count: Callable[[str], int] = counter.count
        self.first: Callable[[str, int], str] = counter.first
        limits = (
            llm.window,
            llm.engine_kwargs.get("max_model_len"),
            getattr(counter, "window", None),
        )
        self.window: int = min((int(n) for n in limits if n), default=_UNKNOWN_WINDOW)

    def length(self, messages: Sequence[Message]) -> int:
        """The tokens of a conversation, with what a chat template adds."""
        if self.local is not None:
            return len(self.local.encode(messages))
        return sum(self.count(message.content) for message in messages) + _TEMPLATE_TOKENS


def _window(folder: str) -> int | None:
    import transformers

    try:
        config = transformers.AutoConfig.from_pretrained(folder).get_text_config()
    except (OSError, ValueError):
        return None
    return getattr(config, "max_position_embeddings", None)
