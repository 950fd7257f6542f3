"""Relevance by how likely a language model says yes when it is asked whether a passage answers.

The score is P(yes) / (P(yes) + P(no)), by the likelihoods of the first token of the answer; see
Nogueira et al.: Document Ranking with a Pretrained Sequence-to-Sequence Model (Findings of EMNLP
2020) for two words, and Liang et al.: Holistic Evaluation of Language Models (2022) for yes and no.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rag_cluster import prompts
from rag_cluster.errors import ModelError
from rag_cluster.models.fitting import beginnings
from rag_cluster.models.ports import LLM, Message, Request, Vectors
from rag_cluster.models.prompting import Prompting
from rag_cluster.models.together import together


class YesOrNo:
    """An AsyncScorer over a language model that gives the likelihoods of tokens."""

    def __init__(
        self,
        llm: LLM,
        prompting: Prompting,
        replaced: Mapping[str, str],
        *,
        passage_tokens: int = 300,
    ) -> None:
        """`replaced` are the configuration's prompts; a passage is cut at `passage_tokens`."""
        self._llm = llm
        self._prompting = prompting
        self._replaced = replaced
        self._passage_tokens = passage_tokens

    async def score(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [len(texts)], each in [0, 1]. Raises ModelError and ServiceError."""
        found = await together(self._score(query, text) for text in texts)
        return np.array(found, dtype=np.float32)

    async def _score(self, query: str, text: str) -> float:
        beside = self._prompting.length(self._messages(query, "")) + 1
        (passage,) = beginnings(self._prompting, [text], self._passage_tokens, beside)
        request = Request(self._messages(query, passage), max_tokens=1)
        yes, no = await self._llm.likelihoods(request, ("yes", "no"))
        if max(yes, no) == -math.inf:
            raise ModelError(
                f"{self._llm.name!r} was asked for yes or no, and neither is among the likeliest "
                "tokens of its answer: use rerank.kind listwise_llm, or another model"
            )
        # The same as the share of yes, without numbers that are too small for a float.
        return 1 / (1 + math.exp(min(no - yes, 700.0)))

    def _messages(self, query: str, passage: str) -> tuple[Message, ...]:
        text = prompts.render(self._replaced, "pointwise", query=query, passage=passage)
        return (Message("user", text),)
