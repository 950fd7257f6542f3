"""Passages for the tests of this room, and an encoder that needs no model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from rag_cluster.answer.sources import Source, join
from rag_cluster.answer.words import words
from rag_cluster.schema import Passage


def passage(
    text: str,
    *,
    doc: str = "doc",
    start: int = 0,
    rank: int = 1,
    page: int | None = 1,
    header: str = "",
    section: str = "",
    title: str = "Manual",
    chunk: str | None = None,
) -> Passage:
    return Passage(
        rank=rank,
        score=1 / rank,
        chunk_id=chunk or f"{doc}:{start}:{len(text)}",
        doc_id=doc,
        uri=f"file:///corpus/{doc}.pdf",
        title=title,
        pages=None if page is None else (page, page),
        section=section,
        kind="section",
        parent_id=None,
        ordinal=0,
        start=start,
        end=start + len(text),
        header=header,
        text=text,
    )


def source(text: str, marker: int = 1, **given: object) -> Source:
    import dataclasses

    made = join([(marker - 1, passage(text, doc=f"doc{marker}", **given))])  # type: ignore[arg-type]
    return dataclasses.replace(made, marker=marker)


def count_words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


class BagOfWords:
    """Each word is a pseudo-random direction, so that texts which share words are near."""

    async def encode(self, texts: Sequence[str], kind: str = "query") -> np.ndarray:
        return np.stack([self._vector(text) for text in texts]).astype(np.float32)

    def _vector(self, text: str) -> np.ndarray:
        total = np.full(512, 1e-6)
        for word in words(text):
            seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=4).digest(), "big")
            total += np.random.default_rng(seed).normal(size=512)
        return total / np.linalg.norm(total)
