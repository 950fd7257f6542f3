"""The plan of an ingest: its steps, and the datasets that go through them.

    FILE -> parse -> keep -> chunk -> enrich -> embed -> store

Where a language model writes something for the chunks, there are two passes. The first asks it and
ends with files of what it wrote; the second begins with the documents that the first has kept.

    FILE -> parse -> keep -> prompts -> generate -> record
                     kept documents -> chunk -> enrich -> embed -> store

It writes contexts, which `enrich` puts in front of chunks, or facts, which `chunk` puts in their
place.

In late chunking a chunk gets its vector where it is cut: there is no step `embed`. Where there is
a model of learned sparse vectors, the step `sparse` stands before `store`.
"""

from __future__ import annotations

import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import ray.data
from numpy.typing import NDArray

from rag_cluster import cluster, work
from rag_cluster.asking import Prompts, maker
from rag_cluster.chunk.rewrite import Rewriter
from rag_cluster.chunk.stage import Chunker
from rag_cluster.config import Config
from rag_cluster.embed import Claim, Embedder, LateEmbedder, SparseEmbedder
from rag_cluster.enrich import Enricher
from rag_cluster.generated import FOLDER, Generated
from rag_cluster.generation import generate, whole_documents
from rag_cluster.hashes import Hashes
from rag_cluster.index import reuse
from rag_cluster.models.encoder import load_encoder
from rag_cluster.parse.stage import Parser
from rag_cluster.progress import Progress
from rag_cluster.run import Run
from rag_cluster.schema import DOCUMENT, FILE, PROMPT, chunk_schema
from rag_cluster.steps import Shared, Stage, Step, check, source, through

PROMPT_BATCH = 4  # documents, of which each has as many prompts as chunks

Stays = Callable[[pa.Table], NDArray[np.bool_]]


class Plan:
    """The steps of a run with their resources, and the datasets that go through them."""

    def __init__(self, run: Run, progress: Progress) -> None:
        self._run = run
        self._progress = progress
        self._share = cluster.share(
            run.config, run.size, run.files_bytes, _encoding_steps(run.config)
        )
        self._name = f"{run.work} {time.time_ns()}"
        self._done = Shared(run.changes.done)
        # Files to documents that are kept, and documents to chunks that are stored.
        self.reading = self._reading()
        self.making: list[Step] = []
        self.texts: dict[str, float] | None = None  # counts of what a language model wrote

    def consume(self) -> None:
        """Runs all that there is to do; the run's folder has what it made."""
        read = self._run.config.writes is not None
        if read:
            self.texts = self._write_texts()
        self.making = self._making()
        check([*self.reading, *self.making])
        documents = self._documents(read=read)
        if documents is not None:
            consume(through(documents, self.making, self._run.config, self._progress))

    def encode(self, rows: pa.Table) -> None:
        """Embeds and stores some CHUNK rows, whatever other workers have done.

        In late chunking no worker leaves a text to others, so there are none.
        """
        at = [step.name for step in self.making].index("embed")
        embed, *rest = self.making[at:]
        alone = functools.partial(
            _embedder, threads=1, known=functools.partial(Hashes.of, ()), moved=None, claim=None
        )
        again = [dataclasses.replace(embed, make=alone), *rest]
        consume(through(source(rows), again, self._run.config, self._progress))

    def _write_texts(self) -> dict[str, float] | None:
        """The first pass of two: parses documents, and has a language model write for them."""
        run, config = self._run, self._run.config
        assert run.model is not None
        known = [*([] if run.old is None else run.old.files_of(FOLDER)), *_written(run)]
        prompts = functools.partial(
            _prompts,
            threads=self._share.encoder_threads,
            model=run.model,
            known=Shared(Generated(known)),
            folder=run.work,
        )
        step = Step(
            "prompts", prompts, DOCUMENT, PROMPT, PROMPT_BATCH, self._share.task_cpus,
            run=self._name,
        )  # fmt: skip
        check([*self.reading, step])
        with whole_documents():
            documents = self._documents(read=False)
            if documents is None:
                return None
            asked = through(documents, [step], config, self._progress)
            fitted = config.llm.model_copy(update={"engine_cpus": self._share.engine_cpus})
            config = config.model_copy(update={"llm": fitted})
            return generate(asked, config, run.model, run.work, self._progress)

    def _documents(self, *, read: bool) -> ray.data.Dataset | None:
        """The documents to chunk: of the files (which may be `read`) and published; or None."""
        run, parts = self._run, []
        if run.changes.files.num_rows and not read:
            parts.append(
                through(source(run.changes.files), self.reading, run.config, self._progress)
            )
        elif run.changes.files.num_rows:
            stays = functools.partial(work.still_current, current=Shared(run.current))
            parts.append(self._stored(_parts(run, work.DOCUMENTS), stays))
        if run.changes.restore:
            assert run.old is not None
            stays = functools.partial(work.not_gone, gone=Shared(run.changes.gone))
            paths = [run.old.shard_path("documents", i) for i in range(run.old.shards)]
            parts.append(self._stored(paths, stays))
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else parts[0].union(parts[1])

    def _stored(self, paths: Sequence[Path], stays: Stays) -> ray.data.Dataset:
        """The documents of files of documents that stay and are not done.

        The run's and the published version's files are two such steps, and each has its own rule of
        what stays: a task's process must not take one for the other.
        """
        restore = functools.partial(work.RestoreDocuments, stays, self._done)
        step = Step(
            "restore", lambda _: restore(), work.STORED, DOCUMENT, 1, self._share.task_cpus,
            run=f"{self._name} {paths[0] if paths else None}",
        )  # fmt: skip
        rows = work.stored_documents(paths)
        return through(source(rows), [step], self._run.config, self._progress)

    def _reading(self) -> list[Step]:
        run, share = self._run, self._share
        config = run.config
        keep = functools.partial(work.KeepDocuments, run.work, config.index.shards, self._done)
        return [
            Step(
                "parse", Parser, FILE, DOCUMENT, config.resources.parse_batch,
                share.parse_cpus, workers=(1, share.parsers),
            ),
            Step("keep", lambda _: keep(), DOCUMENT, DOCUMENT, None, share.task_cpus,
                 run=self._name),
        ]  # fmt: skip

    def _making(self) -> list[Step]:
        run, share = self._run, self._share
        config = run.config
        chunks = chunk_schema(config.metadata.fields)
        vectors = work.part_schema(config.metadata.fields, run.encoder["dim"])
        sparse = config.sparse.model is not None
        stored = work.part_schema(config.metadata.fields, run.encoder["dim"], sparse=sparse)
        store = functools.partial(work.KeepChunks, run.work, config.index.shards)
        written = None if config.writes is None else Shared(Generated(_written(run)))
        enrich = functools.partial(Enricher, generated=written)
        last = [
            *([self._sparse(vectors, stored)] if sparse else []),
            Step(
                "store", lambda _: store(), stored, work.KeepChunks.GIVES, None, share.task_cpus,
                run=self._name,
            ),
        ]  # fmt: skip
        if config.embed.mode == "late":
            return [
                self._late(vectors),
                Step("enrich", enrich, vectors, vectors, None, share.task_cpus, run=self._name),
                *last,
            ]
        return [
            self._chunking(chunks, written),
            Step("enrich", enrich, chunks, chunks, None, share.task_cpus, run=self._name),
            self._embedding(chunks, vectors),
            *last,
        ]

    def _late(self, vectors: pa.Schema) -> Step:
        """Cuts documents and encodes their chunks at once, while the text around them is there."""
        share = self._share
        late = functools.partial(_late, threads=share.encoder_threads, known=self._known())
        return Step(
            "chunk", late, DOCUMENT, vectors, self._run.config.resources.chunk_batch,
            share.encoder_cpus, share.encoder_gpus, workers=(share.encoders, share.encoders),
        )  # fmt: skip

    def _embedding(self, chunks: pa.Schema, vectors: pa.Schema) -> Step:
        share = self._share
        embedder = functools.partial(
            _embedder,
            threads=share.encoder_threads,
            known=self._known(),
            moved=_moved(self._run),
            claim=self._progress.claim,
        )
        return Step(
            "embed", embedder, chunks, vectors, self._run.config.resources.encode_batch,
            share.encoder_cpus, share.encoder_gpus, workers=(share.encoders, share.encoders),
        )  # fmt: skip

    def _sparse(self, vectors: pa.Schema, stored: pa.Schema) -> Step:
        share = self._share
        sparse = functools.partial(SparseEmbedder, threads=share.encoder_threads)
        return Step(
            "sparse", sparse, vectors, stored, self._run.config.resources.encode_batch,
            share.encoder_cpus, share.encoder_gpus, workers=(share.encoders, share.encoders),
        )  # fmt: skip

    def _known(self) -> Shared[Hashes]:
        return Shared(Hashes(reuse.held_hashes(self._run.known)))

    def _chunking(self, chunks: pa.Schema, written: Shared[Generated] | None) -> Step:
        share, batch = self._share, self._run.config.resources.chunk_batch
        if self._run.config.chunk.strategy == "proposition":
            assert written is not None  # the first pass has written facts
            rewrite = functools.partial(Rewriter, generated=written)
            return Step("chunk", rewrite, DOCUMENT, chunks, batch, share.task_cpus, run=self._name)
        if self._run.config.chunk.strategy != "semantic":
            return Step("chunk", Chunker, DOCUMENT, chunks, batch, share.task_cpus)
        return Step(
            "chunk", functools.partial(Chunker, threads=share.encoder_threads), DOCUMENT, chunks,
            batch, share.encoder_cpus, share.encoder_gpus,
            workers=(share.encoders, share.encoders),
        )  # fmt: skip


def _encoding_steps(config: Config) -> int:
    """How many steps load an encoder. Late chunking cuts and encodes in one."""
    cutting = config.chunk.strategy == "semantic" and config.embed.mode == "passage"
    return 1 + cutting + (config.sparse.model is not None)


def _parts(run: Run, kind: str) -> list[Path]:
    return [
        path
        for shard in range(run.config.index.shards)
        for path in work.part_files(run.work, kind, shard)
    ]


def chunk_parts(run: Run) -> list[Path]:
    """The files of chunks that the run has stored."""
    return _parts(run, work.CHUNKS)


def _written(run: Run) -> list[Path]:
    return _parts(run, FOLDER)


def _prompts(
    config: Config,
    *,
    threads: int,
    model: Mapping[str, Any],
    known: Callable[[], Generated],
    folder: Path,
) -> Stage:
    return Prompts(
        config,
        chunk=Chunker(config, threads=threads),
        make=functools.partial(maker, config),
        model=model,
        known=known(),
        work=folder,
    )


def _embedder(
    config: Config,
    *,
    threads: int,
    known: Callable[[], Hashes],
    moved: Callable[[], reuse.Moved] | None,
    claim: Claim | None,
) -> Stage:
    renamed = None if moved is None else moved()
    return Embedder(config, threads, known=known(), moved=renamed, claim=claim)


def _late(config: Config, *, threads: int, known: Callable[[], Hashes]) -> Stage:
    encoder = load_encoder(config.embed, threads)
    chunker = Chunker(config, encoder=encoder)
    return LateEmbedder(config, chunker, encoder=encoder, known=known())


def _moved(run: Run) -> Shared[reuse.Moved] | None:
    """The vectors of files that may have got another name; None without any such file."""
    if run.old is None or not run.changes.moved:
        return None
    paths = [
        (run.old.shard_path("chunks", i), run.old.shard_path("vectors", i))
        for i in range(run.old.shards)
    ]
    return Shared(reuse.moved_texts(paths, run.changes.moved))


def consume(data: ray.data.Dataset) -> None:
    """Runs a plan to its end."""
    with warnings.catch_warnings():
        # A few files keep no more than one encoder busy, and that is as it should be.
        warnings.filterwarnings("ignore", "The minimum number of concurrent actors")
        for _ in data.iter_batches(batch_size=None):
            pass
