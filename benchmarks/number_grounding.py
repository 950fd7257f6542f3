"""Number grounding on real text: sentences as they are, and with one of their numbers changed.

    python -m benchmarks.number_grounding FOLDER... [--most N] [--examples N]

A folder has `corpus.jsonl` (BEIR). Each sentence of a record stands for an answer, the record for
its passage. As it is, all its numbers are said; with one digit of one number changed (seeded, and
so that the record's digits nowhere read like it) that number is not. Printed are the share of
sentences that are flagged as they are, and the share of changed numbers that is found.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rag_cluster.answer.evidence import claimed, said, unsaid
from rag_cluster.answer.quantities.spelled import spelled
from rag_cluster.answer.sentences import split_units
from rag_cluster.answer.sources import Source, join
from rag_cluster.schema import Passage


@dataclass
class Counts:
    """What was tried in a folder, and examples of what went wrong."""

    records: int = 0
    sentences: int = 0
    numbers: int = 0
    flagged: int = 0
    found: int = 0
    examples: list[str] = field(default_factory=list)


def measure(folder: Path, most: int, seed: int = 0) -> Counts:
    """The counts over the first `most` records of a folder."""
    chance, counts = random.Random(seed), Counts()
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()[:most]
    for line in lines:
        record = json.loads(line)
        source = _source(record.get("title", ""), record["text"])
        counts.records += 1
        for sentence in _sentences(source.text):
            numbers = claimed(sentence)
            if not numbers:
                continue
            counts.sentences += 1
            if missing := unsaid(numbers, [source]):
                counts.flagged += 1
                counts.examples.append(f"flagged {missing[0].said!r} as it is: {sentence!r}")
            _change(sentence, source, chance, counts)
    return counts


def _change(sentence: str, source: Source, chance: random.Random, counts: Counts) -> None:
    """Each number of a sentence changed in its turn, and whether grounding finds it."""
    for number in claimed(sentence):
        changed = _other(number.said, source.text, chance)
        if changed is None:
            continue
        counts.numbers += 1
        answer = sentence[: number.start] + changed + sentence[number.end :]
        end = number.start + len(changed)
        if any(
            one.start < end and number.start < one.end for one in unsaid(claimed(answer), [source])
        ):
            counts.found += 1
        else:
            counts.examples.append(f"missed {changed!r} for {number.said!r}: {sentence!r}")


def _other(said: str, text: str, chance: random.Random) -> str | None:
    """The number with one digit changed so that the text has not these digits; None in words."""
    known = {str(numeral.value) for _, _, numeral in spelled(text)}
    places = [place for place, character in enumerate(said) if character in "0123456789"]
    chance.shuffle(places)
    for place in places:
        digits = [digit for digit in "123456789" if digit != said[place]]
        chance.shuffle(digits)
        for digit in digits:
            changed = said[:place] + digit + said[place + 1 :]
            plain = "".join(c for c in changed if c.isdigit() or c == ".")
            if plain not in text.replace(",", "") and plain not in known:
                return changed
    return None


def _sentences(text: str) -> Iterator[str]:
    for unit in split_units(text):
        if unit.kind in ("sentence", "row"):
            yield text[unit.start : unit.end]


def _source(title: str, text: str) -> Source:
    made = Passage(
        rank=1, score=1.0, chunk_id="c", doc_id="d", uri="file:///corpus.jsonl", title=title,
        pages=None, section="", kind="section", parent_id=None, ordinal=0, start=0, end=len(text),
        header="", text=text,
    )  # fmt: skip
    return join([(0, made)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a line for each folder."""
    parser = argparse.ArgumentParser(prog="benchmarks.number_grounding", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--most", type=int, default=1000, help="records of a folder")
    parser.add_argument("--examples", type=int, default=0, help="print so many that went wrong")
    options = parser.parse_args(arguments)
    print(f"{'folder':<16}{'records':>8}{'sentences':>11}{'flagged as is':>15}"
          f"{'changed':>9}{'found':>8}")  # fmt: skip
    for folder in options.folders:
        counts = measure(folder, options.most)
        said.cache_clear()
        flagged = counts.flagged / max(1, counts.sentences)
        found = counts.found / max(1, counts.numbers)
        print(f"{folder.name:<16}{counts.records:>8}{counts.sentences:>11}"
              f"{flagged:>15.4f}{counts.numbers:>9}{found:>8.3f}")  # fmt: skip
        print("".join(f"  {line[:180]}\n" for line in counts.examples[: options.examples]), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
