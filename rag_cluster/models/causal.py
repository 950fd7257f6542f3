"""A local causal language model through transformers."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rag_cluster.errors import ModelError
from rag_cluster.models.encoder import choose_device, choose_dtype
from rag_cluster.models.fakes import cut_at
from rag_cluster.models.locate import resolve_model
from rag_cluster.models.ports import Completion, Request
from rag_cluster.models.prompting import PromptTokenizer


class TransformersLLM:
    """A causal model of a folder, package or hub id; requests are answered one after another.

    Messages go through the tokenizer's chat template where it has one, else they are joined by
    blank lines. A prompt longer than the window is refused rather than cut.
    """

    def __init__(
        self,
        model: str,
        device: str = "auto",
        *,
        revision: str | None = None,
        window: int | None = None,
    ) -> None:
        import transformers
        from transformers.utils import logging

        self.name = model
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="llm")
        folder = resolve_model(model, revision)
        self._device = choose_device(device)
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            self._prompts = PromptTokenizer(folder)
            loaded = transformers.AutoModelForCausalLM.from_pretrained(
                folder, dtype=choose_dtype("auto", self._device)
            )
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise ModelError(f"{model!r} is not a causal language model: {reason}") from error
        finally:
            if shown:
                logging.enable_progress_bar()
        self._model = loaded.to(self._device).eval()
        self._tokenizer = self._prompts.tokenizer
        own = self._prompts.window
        self._window = min(filter(None, (window, own)), default=None)

    async def generate(self, request: Request) -> Completion:
        """The whole completion. Raises ModelError where it is empty or the prompt is too long."""
        loop = asyncio.get_running_loop()
        gone = threading.Event()
        watch = _Streamer(self._tokenizer, request.stop, None, gone)
        try:
            return await loop.run_in_executor(self._thread, self._generate, request, watch)
        finally:
            # Who stops waiting ends the generation, so that the next request need not wait.
            gone.set()

    async def stream(self, request: Request) -> AsyncIterator[str]:
        """Pieces of the completion as they come. Raises ModelError as `generate` does."""
        loop = asyncio.get_running_loop()
        pieces: asyncio.Queue[str | None] = asyncio.Queue()
        gone = threading.Event()
        put = _Streamer(
            self._tokenizer,
            request.stop,
            lambda text: loop.call_soon_threadsafe(pieces.put_nowait, text),
            gone,
        )
        work = loop.run_in_executor(self._thread, self._generate, request, put)
        work.add_done_callback(lambda _: pieces.put_nowait(None))
        try:
            while (piece := await pieces.get()) is not None:
                yield piece
            await work
        finally:
            # Who stops listening ends the generation, so that the next request need not wait.
            gone.set()

    async def likelihoods(self, request: Request, choices: Sequence[str]) -> list[float]:
        """Logarithms of the choices' probabilities, over the whole vocabulary; never -inf.

        Raises ModelError where a choice is no token of the model or the prompt is too long.
        """
        loop = asyncio.get_running_loop()
        tokens = [self._tokens_of(choice) for choice in choices]
        return await loop.run_in_executor(self._thread, self._likelihoods, request, tokens)

    def close(self) -> None:
        """Ends the thread after the request it is at."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _likelihoods(self, request: Request, tokens: Sequence[list[int]]) -> list[float]:
        import torch

        prompt = self._encode(request)
        takes = inspect.signature(self._model.forward).parameters
        last = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}
        with torch.inference_mode():
            logits = self._model(**prompt, **last).logits[0, -1].float()
        likely = logits.log_softmax(-1)
        return [float(likely[ids].logsumexp(0)) for ids in tokens]

    def _tokens_of(self, choice: str) -> list[int]:
        """The tokens that are the choice alone, in any case, with or without a space before it."""
        written = {choice.lower(), choice.capitalize(), choice.upper()}
        found: set[int] = set()
        for text in (*written, *(f" {one}" for one in written)):
            ids = self._tokenizer(text, add_special_tokens=False)["input_ids"]
            if len(ids) == 1 and ids[0] != self._tokenizer.unk_token_id:
                found.add(ids[0])
        if not found:
            raise ModelError(f"{choice!r} is no token of {self.name!r}: its likelihood is unknown")
        return sorted(found)

    def _generate(self, request: Request, watch: _Streamer) -> Completion:
        import torch
        import transformers

        prompt = self._encode(request)
        length = prompt["input_ids"].shape[1]
        sampling: dict[str, Any] = {"do_sample": request.temperature > 0}
        if request.temperature > 0:
            sampling["temperature"] = request.temperature
        settings = transformers.GenerationConfig(
            max_new_tokens=request.max_tokens,
            pad_token_id=self._tokenizer.pad_token_id or self._tokenizer.eos_token_id,
            eos_token_id=self._model.generation_config.eos_token_id,
            **sampling,
        )
        watch.skip = length
        with torch.inference_mode():
            output = self._model.generate(
                **prompt, generation_config=settings, stopping_criteria=[watch]
            )
        made = output[0, length:]
        text = cut_at(self._tokenizer.decode(made, skip_special_tokens=True), request.stop)
        watch.finish(text)
        if not text.strip():
            raise ModelError(f"{self.name!r} gave an empty answer")
        return Completion(text, length, len(made))

    def _encode(self, request: Request) -> Any:
        import torch

        ids = torch.tensor([self._prompts.encode(request.messages)], device=self._device)
        length = ids.shape[1]
        if self._window is not None and length + request.max_tokens > self._window:
            raise ModelError(
                f"the prompt has {length} tokens, which with {request.max_tokens} of the answer "
                f"is more than the window of {self.name!r}, {self._window}: lower "
                "answer.budget_tokens or generate.max_tokens"
            )
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


class _Streamer:
    """Called after each token: hands on text that can no longer change, and says when to stop."""

    def __init__(
        self, tokenizer: Any, stop: Sequence[str], put: Any, gone: threading.Event
    ) -> None:
        self.skip = 0
        self._tokenizer = tokenizer
        self._stop = [string for string in stop if string]
        self._put = put
        self._gone = gone
        self._given = 0

    def __call__(self, input_ids: Any, *_: Any, **__: Any) -> Any:
        import torch

        text = self._tokenizer.decode(input_ids[0, self.skip :], skip_special_tokens=True)
        stopped = self._gone.is_set() or any(string in text for string in self._stop)
        if not stopped:
            # The tail may be the beginning of a stop string, or half a character.
            held = max([1, *map(len, self._stop)])
            self._give(text[: max(self._given, len(text) - held)])
        return torch.full((input_ids.shape[0],), stopped, device=input_ids.device)

    def finish(self, text: str) -> None:
        """Hands on what was held back."""
        self._give(text)

    def _give(self, text: str) -> None:
        if self._put is not None and len(text) > self._given and not self._gone.is_set():
            self._put(text[self._given :])
            self._given = len(text)
