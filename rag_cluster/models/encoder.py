"""Texts to vectors with a sentence-transformers model, as fast as the processor allows.

On a CPU the order of the texts and the size of a batch decide the speed: texts are sorted by their
length over the whole call, so that hardly anything is padded, and a batch is small enough for its
activations to stay in the processor's cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rag_cluster.config import Embed
from rag_cluster.errors import ModelError
from rag_cluster.models.fakes import FakeEncoder
from rag_cluster.models.locate import resolve_model
from rag_cluster.models.ports import Encoder, Kind, Span, Vectors
from rag_cluster.models.spans import check_mean_pooling, offsets_of, pool_spans
from rag_cluster.models.tokenizer import load_tokenizer

if TYPE_CHECKING:
    import torch

# Processor flags of units that compute in bfloat16; without them bfloat16 is emulated and slow.
_BFLOAT16_FLAGS = {"amx_bf16", "avx512_bf16"}
# Tokens of a batch on a CPU: beyond, activations fall out of the cache (8 texts of 128 tokens
# encode 1.3 times as fast as 32 of them).
_CPU_BATCH_TOKENS = 1024
_LONGEST = 1 << 20


def load_encoder(config: Embed, threads: int | None = None) -> Encoder:
    """The encoder of a configuration. `threads` are the CPU threads that torch may use.

    Raises ModelError where the model is not found or cannot be loaded.
    """
    if config.model.startswith("fake:"):
        size = config.model.removeprefix("fake:")
        if not size.isdigit():
            raise ModelError(f"embed.model {config.model!r}: write fake:DIM, such as fake:64")
        return FakeEncoder(config.dim or int(size), config.max_tokens or 256)
    return SentenceTransformerEncoder(config, threads)


class SentenceTransformerEncoder:
    """A sentence-transformers model with its prefixes, window, dimensions and data type.

    One call at a time computes (a lock keeps others waiting), so an instance may be shared between
    threads. Vectors of a text differ in the last bits with the batch that it stands in.
    """

    def __init__(self, config: Embed, threads: int | None = None) -> None:
        import torch

        self._config = config
        self._prefixes = {"query": config.query_prefix, "passage": config.passage_prefix}
        self._lock = threading.Lock()
        if threads is not None:
            # A Ray worker is started with OMP_NUM_THREADS=1, whatever CPUs it was given.
            torch.set_num_threads(threads)
        folder = resolve_model(config.model, config.revision)
        self._tokenizer = load_tokenizer(config.model, config.revision)
        self._device = choose_device(config.device)
        self._dtype = choose_dtype(config.dtype, self._device)
        self._model = load_transformer("SentenceTransformer", folder, self._device, self._dtype)
        full = int(self._model.get_embedding_dimension() or 0)
        self.dim: int = config.dim or full
        if not 0 < self.dim <= full:
            raise ModelError(f"embed.dim is {self.dim}, but {config.model!r} has {full} dimensions")
        own = int(self._model.max_seq_length or _LONGEST)
        limit = _positions(self._model) or max(own, config.max_tokens or 0)
        self.max_tokens: int = config.max_tokens or min(own, limit)
        if self.max_tokens > limit:
            raise ModelError(
                f"embed.max_tokens is {self.max_tokens}, but {config.model!r} reads {limit} at most"
            )
        self._model.max_seq_length = self.max_tokens
        self.revision: str = weights_revision(folder)

    def encode(self, texts: Sequence[str], kind: Kind = "passage") -> Vectors:
        """float32 [len(texts), dim]; of length 1 where the configuration says so."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        prefixed = [self._prefixes[kind] + text for text in texts]
        for rows in self._batches(prefixed):
            output = self._forward([prefixed[row] for row in rows])
            pooled = output["sentence_embedding"].float().cpu().numpy()
            vectors[rows] = pooled[:, : self.dim]
        return _unit(vectors) if self._config.normalize else vectors

    def encode_tokens(self, texts: Sequence[str], kind: Kind = "passage") -> list[Vectors]:
        """For each text float32 [tokens, dim], special tokens included, each row of length 1."""
        found: list[Vectors] = [np.zeros((0, self.dim), dtype=np.float32)] * len(texts)
        prefixed = [self._prefixes[kind] + text for text in texts]
        for rows in self._batches(prefixed):
            output = self._forward([prefixed[row] for row in rows])
            states = output["token_embeddings"].float().cpu().numpy()
            mask = output["attention_mask"].cpu().numpy().astype(bool)
            for row, state, kept in zip(rows, states, mask, strict=True):
                found[row] = _unit(state[kept][:, : self.dim])
        return found

    def encode_spans(self, texts: Sequence[str], spans: Sequence[Sequence[Span]]) -> list[Vectors]:
        """For each text float32 [its spans, dim]; see `pool_spans`.

        Raises ModelError for a model whose vectors are no means of token vectors.
        """
        check_mean_pooling(self._model, self._config.model)
        # The model's own vectors are cut after its Normalize, where it has one.
        unit_first = type(self._model[len(self._model) - 1]).__name__ == "Normalize"
        prefix = self._prefixes["passage"]
        found: list[Vectors] = [np.zeros((0, self.dim), dtype=np.float32)] * len(texts)
        prefixed = [prefix + text for text in texts]
        for rows in self._batches(prefixed):
            output = self._forward([prefixed[row] for row in rows])
            states = output["token_embeddings"].float().cpu().numpy()
            mask = output["attention_mask"].cpu().numpy().astype(bool)
            marks = offsets_of(self._model, [prefixed[row] for row in rows], self.max_tokens)
            for row, state, kept, (offsets, special) in zip(rows, states, mask, marks, strict=True):
                own = [(start + len(prefix), end + len(prefix)) for start, end in spans[row]]
                pooled = pool_spans(state[kept], offsets, special, own, len(prefix))
                pooled = (_unit(pooled) if unit_first else pooled)[:, : self.dim]
                found[row] = _unit(pooled) if self._config.normalize else pooled
        return found

    def _batches(self, texts: Sequence[str]) -> list[list[int]]:
        special = self._tokenizer.special_tokens
        lengths = [min(n + special, self.max_tokens) for n in self._tokenizer.count(texts)]
        tokens = _CPU_BATCH_TOKENS if self._device == "cpu" else _LONGEST
        return batches(lengths, self._config.batch_size, tokens)

    def _forward(self, texts: list[str]) -> dict[str, Any]:
        import torch

        with self._lock, torch.inference_mode(), threads_for(len(texts)):
            features = {
                name: value.to(self._device) if hasattr(value, "to") else value
                for name, value in self._model.preprocess(texts).items()
            }
            output: dict[str, Any] = self._model(features)
        return output


@contextlib.contextmanager
def threads_for(texts: int) -> Iterator[None]:
    """One thread for one text.

    Reading the weights takes longer than computing with them, and on a busy machine two threads
    wait for each other many times as long as one works.
    """
    import torch

    before = torch.get_num_threads()
    if texts > 1 or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def batches(lengths: Sequence[int], most: int, tokens: int) -> list[list[int]]:
    """Rows in batches: the longest first, at most `most` rows and `tokens` tokens with padding.

    A row longer than `tokens` is a batch of its own. Every row stands in exactly one batch.
    """
    made: list[list[int]] = []
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    for row in order:
        # The first row of a batch is its longest, and so the width of all.
        if made and len(made[-1]) < most and (len(made[-1]) + 1) * lengths[made[-1][0]] <= tokens:
            made[-1].append(row)
        else:
            made.append([row])
    return made


def choose_device(device: str, key: str = "embed.device") -> str:
    """`auto` is the GPU if there is one. Raises ModelError where the named one is not there.

    `key` is the configuration's that names it.
    """
    import torch

    present = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if device == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if present[name])
    if not present.get(device, False):
        raise ModelError(f"{key} is {device!r}, but torch finds no such device here")
    return device


def choose_dtype(dtype: str, device: str, flags: frozenset[str] | None = None) -> torch.dtype:
    """`auto` is float16 on a GPU, bfloat16 on a CPU with units for it, else float32.

    `flags` are the processor's flags, by default those of this machine.
    """
    import torch

    if dtype == "auto":
        if device != "cpu":
            dtype = "float16"
        else:
            known = processor_flags() if flags is None else flags
            dtype = "bfloat16" if _BFLOAT16_FLAGS & known else "float32"
    return cast("torch.dtype", getattr(torch, dtype))


def processor_flags() -> frozenset[str]:
    """The feature flags of this machine's processor; empty where the system does not list them."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    listed = (line.partition(":")[2].split() for line in lines if line.startswith("flags"))
    return frozenset(next(listed, []))


def load_transformer(kind: str, folder: str, device: str, dtype: torch.dtype) -> Any:
    """A SentenceTransformer or CrossEncoder of a folder, loaded without progress bars.

    Raises ModelError where the folder does not hold such a model.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import sentence_transformers
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model = getattr(sentence_transformers, kind)(
            folder, device=device, local_files_only=True, model_kwargs={"dtype": dtype}
        )
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"{folder} is not a model for {kind}: {reason}") from error
    finally:
        if shown:
            logging.enable_progress_bar()
    return model.eval()


def revision_of(config: Embed) -> str:
    """What the weights of the configuration's encoder are, as it says itself, without loading it.

    Raises ModelError where the model is not found.
    """
    if config.model.startswith("fake:"):
        return config.model
    return weights_revision(resolve_model(config.model, config.revision))


def weights_revision(folder: str) -> str:
    """The hub's commit of a snapshot folder, else a hash of the weights and settings in it."""
    path = Path(folder)
    if path.parent.name == "snapshots":
        return path.name
    digest = hashlib.blake2b(digest_size=12)
    for file in sorted(path.rglob("*")):
        if file.suffix in (".safetensors", ".bin", ".json") and file.is_file():
            digest.update(file.relative_to(path).as_posix().encode())
            with file.open("rb") as data:
                digest.update(hashlib.file_digest(data, "blake2b").digest())
    return digest.hexdigest()


def _positions(model: Any) -> int | None:
    """The positions that the architecture has, if it has a fixed number."""
    found = getattr(model.config, "max_position_embeddings", None)
    return found if isinstance(found, int) and found > 0 else None


def _unit(vectors: Vectors) -> Vectors:
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return cast("Vectors", vectors / np.maximum(norms, np.float32(1e-12)))
