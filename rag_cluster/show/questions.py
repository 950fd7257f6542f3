"""Progress and summary of making questions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rag_cluster.show import console, table

if TYPE_CHECKING:
    from rag_cluster.questions import Snapshot

SECONDS_BETWEEN_LINES = 10.0


def describe(snapshot: Snapshot) -> str:
    """One line: questions made, chunks asked about, rate, failures, time left."""
    parts = [
        f"{snapshot.made:,}/{snapshot.wanted:,} questions",
        f"{snapshot.asked:,} chunks asked about ({snapshot.failed:,} failed)",
        f"{snapshot.skipped:,} skipped",
    ]
    if snapshot.rate:
        slow = snapshot.rate < 1
        parts.append(
            f"{snapshot.rate * 60:.1f} chunks/min" if slow else f"{snapshot.rate:.1f} chunks/s"
        )
    if snapshot.seconds_left is not None:
        parts.append(f"about {_clock(snapshot.seconds_left)} left")
    return f"{_clock(snapshot.elapsed)}  " + ", ".join(parts)


@contextlib.contextmanager
def progress() -> Iterator[Callable[[Snapshot], None]]:
    """Gives the function that shows a snapshot: a live line, or in a pipe a line now and then."""
    out = console(stderr=True)
    if out.is_terminal:
        with out.status("reading the collection") as status:
            yield lambda snapshot: status.update(describe(snapshot))
        return
    last = time.monotonic()

    def line(snapshot: Snapshot) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            out.print(describe(snapshot), highlight=False, soft_wrap=True)

    yield line


def summary(result: dict[str, Any]) -> None:
    """How many questions there are, where they stand, and why chunks gave none."""
    out = console()
    rows = table("chunks", ">")
    rows.add_row("in the collection", f"{result['chunks']:,}")
    for reason, count in result["left_out"].items():
        rows.add_row(f"not drawn: {reason}", f"{count:,}")
    rows.add_row("asked about", f"{result['asked']:,}")
    if result["taken_over"]:
        rows.add_row("answered in an interrupted run", f"{result['taken_over']:,}")
    for reason, count in result["skipped"].items():
        rows.add_row(f"no question: {reason}", f"{count:,}")
    out.print(rows, highlight=False, markup=False)
    lines = [
        f"{result['questions']:,} of {result['wanted']:,} questions: {result['ended']}",
    ]
    if result["strata"]:
        counts = ", ".join(f"{value} {count:,}" for value, count in result["strata"].items())
        lines.append(f"by {result['by']}: {counts}")
    lines.append(
        f"{result['model']} read {result['prompt_tokens']:,} tokens and wrote "
        f"{result['completion_tokens']:,}; {result['retried']:,} times it was told of a problem "
        f"({result['seconds']:.1f} s)"
    )
    if result["questions"]:
        lines.append(
            f"wrote {result['out']} and {result['qrels']}, on {result['documents']:,} documents"
        )
    for line in lines:
        out.print(line, highlight=False, markup=False, soft_wrap=True)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s"
