"""Passages in the order that a language model puts them in, a window at a time.

Sun et al.: Is ChatGPT Good at Search? Investigating Large Language Models as Re-Ranking Agents
(EMNLP 2023), known as RankGPT. The window moves from the back to the front, so that what is good
is carried forward, and ends at the very front, whatever the number of passages.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence

import numpy as np

from rag_cluster import prompts
from rag_cluster.errors import ModelError
from rag_cluster.models.fitting import beginnings
from rag_cluster.models.ports import LLM, Message, Request
from rag_cluster.models.prompting import Prompting
from rag_cluster.rerank.order import Step

# What a number with its brackets and sign takes of a completion, with room to spare.
_TOKENS_PER_NUMBER = 8

_BRACKETED = re.compile(r"\[\s*([0-9]{1,4})\s*\]")
_NUMBER = re.compile(r"(?<![0-9])[0-9]{1,4}(?![0-9])")


class Listwise:
    """A language model that ranks `window` passages at a time, moving on by `step`."""

    def __init__(
        self,
        llm: LLM,
        prompting: Prompting,
        replaced: Mapping[str, str],
        *,
        window: int = 20,
        step: int = 10,
        passage_tokens: int = 300,
    ) -> None:
        """`replaced` are the configuration's prompts; a passage is cut at `passage_tokens`."""
        self._llm = llm
        self._prompting = prompting
        self._replaced = replaced
        self._window = window
        self._step = step
        self._passage_tokens = passage_tokens

    async def steps(self, query: str, texts: Sequence[str]) -> AsyncGenerator[Step, None]:
        """A step after each window. A passage's score is one over its place in the order.

        Raises ModelError for an answer without a number, and as the model does.
        """
        order = np.arange(len(texts), dtype=np.int64)
        for start, end in windows(len(texts), self._window, self._step):
            shown = order[start:end].copy()
            answer = await self._ask(query, [texts[place] for place in shown])
            order[start:end] = shown[permutation(answer, len(shown))]
            scores = np.empty(len(texts))
            scores[order] = 1 / np.arange(1, len(texts) + 1)
            yield Step(order.copy(), scores)

    async def _ask(self, query: str, texts: Sequence[str]) -> str:
        count = len(texts)
        completion_tokens = _TOKENS_PER_NUMBER * (count + 2)
        beside = self._prompting.length(self._messages(query, [""] * count)) + completion_tokens
        passages = beginnings(self._prompting, texts, self._passage_tokens, beside)
        request = Request(self._messages(query, passages), max_tokens=completion_tokens)
        answer = (await self._llm.generate(request)).text
        if not _NUMBER.search(answer):
            said = " ".join(answer.split())[:80]
            raise ModelError(f"{self._llm.name!r} was asked for a ranking and said {said!r}")
        return answer

    def _messages(self, query: str, texts: Sequence[str]) -> tuple[Message, ...]:
        passages = "\n\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))
        values = {"query": query, "count": str(len(texts)), "passages": passages}
        return (Message("user", prompts.render(self._replaced, "listwise", **values)),)


def windows(count: int, size: int, step: int) -> Iterator[tuple[int, int]]:
    """The places (start, end) of the windows over `count` passages, from the back to the front.

    Each is `size` wide, or up to the front; the last one begins at 0. One passage needs none.
    `step` is smaller than `size`.
    """
    end = count
    while end > 1:
        start = max(0, end - size)
        yield start, end
        if start == 0:
            return
        end -= step


def permutation(answer: str, count: int) -> list[int]:
    """The places from 0 in the order of the numbers from 1 in an answer; always each place once.

    Numbers in brackets count where there are any, else all numbers. What is beyond `count` or was
    there before is dropped; what is missing comes last, in the order that it had.
    """
    found = _BRACKETED.findall(answer) or _NUMBER.findall(answer)
    places = (int(number) - 1 for number in found)
    named = dict.fromkeys(place for place in places if 0 <= place < count)
    return [*named, *(place for place in range(count) if place not in named)]
