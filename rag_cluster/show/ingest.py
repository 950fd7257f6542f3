"""Progress and summary of an ingest."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console

from rag_cluster.report import rewritten
from rag_cluster.show import console, table

if TYPE_CHECKING:
    from rag_cluster.progress import Snapshot

SECONDS_BETWEEN_LINES = 10.0


def describe(snapshot: Snapshot) -> str:
    """One line: documents and chunks done, rate, failures, time left."""
    parse, embed = snapshot.step("parse"), snapshot.step("embed")
    indexed = snapshot.step("gather").rows_out
    asked, answered = snapshot.step("prompts"), snapshot.step("generate")
    parts = [
        f"{parse.rows_in:,}/{snapshot.files:,} files",
        f"{parse.rows_out:,} documents ({parse.failed:,} failed)",
        f"{embed.rows_out:,} chunks embedded",
    ]
    if asked.rows_out and not embed.rows_out:
        parts[2] = f"{answered.rows_out:,} answers ({answered.failed:,} failed)"
        if answered.rows_out and parse.rows_in:
            documents = max(1, snapshot.files) * parse.rows_out / parse.rows_in
            wanted = asked.rows_out * max(1.0, documents / max(1, asked.rows_in))
            left = snapshot.since("generate") * max(0.0, wanted / answered.rows_out - 1)
            parts.append(f"about {_duration(left)} left of asking")
        else:
            parts.append("loading the language model")
    elif indexed:
        parts.append("building the index")
    elif embed.rows_out:
        documents = snapshot.step("chunk").rows_in
        parts.insert(2, f"{documents:,} chunked")
        parts.append(
            f"{documents / snapshot.since('embed'):.1f} documents/s, "
            f"{embed.rows_out / snapshot.since('embed'):.0f} chunks/s"
        )
        if snapshot.seconds_left is not None:
            parts.append(f"about {_duration(snapshot.seconds_left)} left")
    else:
        parts.append("starting" if not parse.rows_in else "loading the encoder")
    return f"{_duration(snapshot.elapsed)}  " + ", ".join(parts)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[Snapshot], None]]:
    """Gives the function that shows a snapshot: a live line, or in a pipe a line now and then."""
    out = console(stderr=True)
    with _heard(out):
        yield from _shown(out)


@contextlib.contextmanager
def _heard(out: Console) -> Iterator[None]:
    """Says at once that Ctrl-C was heard: ending Ray's processes takes some seconds."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one ends it at once
        out.print("stopping: Ray's processes are ended, which takes some seconds", highlight=False)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _shown(out: Console) -> Iterator[Callable[[Snapshot], None]]:
    if out.is_terminal:
        with out.status("starting Ray") as status:
            yield lambda snapshot: status.update(describe(snapshot))
        return
    # Not at once: a mistake is told before Ray is started, in one line.
    begun = threading.Timer(3.0, out.print, ["starting Ray and loading the encoder"])
    begun.daemon = True
    begun.start()
    last = time.monotonic()

    def line(snapshot: Snapshot) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            out.print(describe(snapshot), highlight=False, soft_wrap=True)

    try:
        yield line
    finally:
        begun.cancel()


def summary(result: dict[str, Any]) -> None:
    """The end of an ingest as a table."""
    documents, this_run = result["documents"], result["this_run"]
    rows = table("", ">these sources", ">collection")
    for status in documents:
        rows.add_row(f"documents {status}", f"{this_run[status]:,}", f"{documents[status]:,}")
    rows.add_row("chunks", "", f"{result['chunks']:,}")
    out = console()
    out.print(rows)
    counts = ", ".join(f"{count:,} {name}" for name, count in result["changes"].items())
    work = result["work"]
    out.print(
        f"documents {counts}; {work['files']:,} files parsed, {work['documents']:,} documents "
        f"chunked, {work['texts']:,} texts embedded",
        highlight=False,
    )
    if result["facts"]:
        out.print(f"searched are {rewritten(result['facts'])}", highlight=False, soft_wrap=True)
    if result["sparse"]:
        out.print(f"sparse vectors: {described(result['sparse'])}", highlight=False, soft_wrap=True)
    if (near := result["near_duplicates"]) and near["documents"]:
        out.print(
            f"near-duplicates: {near['documents']:,} documents nearly equal {near['clusters']:,} "
            "others ('rag-cluster inspect --duplicates' names them)",
            highlight=False,
        )
    for reason, count in result["skipped"].items():
        out.print(f"not read: {count:,} x {reason}", highlight=False)
    if result["truncated"]["chunks"]:
        out.print(
            f"{result['truncated']['chunks']:,} chunks are longer than an encoder's window: "
            f"{result['truncated']['tokens']:,} tokens at their ends are not in their vectors",
            highlight=False,
        )
    if warning := result["dense"].get("recall", {}).get("warning"):
        out.print(f"dense index: {warning}", highlight=False, soft_wrap=True)
    what = "published" if result["published"] else "nothing has changed since"
    out.print(
        f"{what} {result['version']} of {result['collection']} ({result['seconds']:.1f} s)",
        highlight=False,
        soft_wrap=True,
    )


def described(sparse: dict[str, Any]) -> str:
    """The model of sparse vectors, and how large they are."""
    return f"{sparse['model']}, {sparse['weights_per_chunk']:,.1f} terms in a chunk"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"
