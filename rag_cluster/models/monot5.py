"""MonoT5: a sequence-to-sequence model that says true or false of a query and a passage.

Nogueira et al.: Document Ranking with a Pretrained Sequence-to-Sequence Model (Findings of EMNLP
2020). The prompt is "Query: q Document: d Relevant:", and the score the logarithm of P(true) among
true and false as the first token of the answer.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from rag_cluster.errors import ModelError
from rag_cluster.models.encoder import batches, choose_device, choose_dtype
from rag_cluster.models.locate import resolve_model
from rag_cluster.models.ports import Vectors

# The tokens that the published models were trained on.
_MOST_TOKENS = 512
_KINDS = {"t5", "mt5", "umt5"}


class MonoT5Scorer:
    """A T5 of a folder, package or hub id whose words for relevance are "true" and "false".

    A passage is cut so that the prompt has at most 512 tokens. Raises ModelError where the model
    cannot be loaded, or its tokenizer has no token for one of the two words.
    """

    def __init__(self, model: str, batch_size: int = 32) -> None:
        import transformers
        from transformers.utils import logging

        folder = resolve_model(model)
        self._device = choose_device("auto")
        dtype = choose_dtype("auto", self._device)
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            kind = transformers.AutoConfig.from_pretrained(folder).model_type
            if kind not in _KINDS:  # it would be loaded, with random numbers for what is missing
                raise ValueError(f"it is a {kind}")
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
            loaded = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=dtype)
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise ModelError(f"{model!r} is not a T5 model: {reason}") from error
        finally:
            if shown:
                logging.enable_progress_bar()
        self._model = loaded.to(self._device).eval()
        self._answers = [self._token(model, word) for word in ("true", "false")]
        self._batch_size = batch_size
        self._lock = threading.Lock()

    def score(self, query: str, texts: Sequence[str]) -> Vectors:
        """float32 [len(texts)], each at most 0."""
        scores = np.zeros(len(texts), dtype=np.float32)
        prompts = self._prompts(query, texts)
        with self._lock:
            for rows in batches([len(ids) for ids in prompts], self._batch_size, 1 << 30):
                scores[rows] = self._forward([prompts[row] for row in rows])
        return scores

    def _prompts(self, query: str, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each pair."""
        before = self._ids(f"Query: {query} Document:")[: _MOST_TOKENS // 2]
        after = [*self._ids("Relevant:"), self._tokenizer.eos_token_id]
        room = _MOST_TOKENS - len(before) - len(after)
        return [[*before, *self._ids(text)[:room], *after] for text in texts]

    def _forward(self, prompts: list[list[int]]) -> Vectors:
        import torch

        longest = max(map(len, prompts))
        pad = self._tokenizer.pad_token_id
        ids = torch.tensor([[*prompt, *[pad] * (longest - len(prompt))] for prompt in prompts])
        mask = torch.tensor(
            [[1] * len(prompt) + [0] * (longest - len(prompt)) for prompt in prompts]
        )
        begin = torch.full((len(prompts), 1), self._model.config.decoder_start_token_id)
        with torch.inference_mode():
            logits = self._model(
                input_ids=ids.to(self._device),
                attention_mask=mask.to(self._device),
                decoder_input_ids=begin.to(self._device),
            ).logits[:, 0, self._answers]
        true: Vectors = logits.float().log_softmax(-1)[:, 0].cpu().numpy()
        return true

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    def _token(self, model: str, word: str) -> int:
        ids = self._ids(word)
        if len(ids) != 1 or ids[0] == self._tokenizer.unk_token_id:
            raise ModelError(f"the tokenizer of {model!r} has no token for {word!r}: no MonoT5")
        return ids[0]
