"""Precision and recall of the guardrails on a labelled set of small cases.

    python -m benchmarks.guardrails [--cases FILE] [--failures PART] [--json FILE]

A case (a line of JSON) has a question, an answer with markers, the passages (text, perhaps title,
section, header, date), which rules should flag it (`flagged`), and for number grounding which
numbers no passage says (`numbers`). Its `part` is "tuned" (the rules were changed for what these
cases showed), "held out" (a third of the same; not) or "hard" (written last, to make the rules
fail; not either). Confidence has a measurement of its own, benchmarks.confidence.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from rag_cluster.answer.citations import check_citations
from rag_cluster.answer.guardrails import Retrieved, Verdict, guard
from rag_cluster.answer.sources import Source, join
from rag_cluster.config import Guardrails
from rag_cluster.schema import Passage

CASES = Path(__file__).with_name("guardrail_cases.jsonl")
RULES = ("coverage", "grounding", "stale", "temporal", "injection")
PARTS = ("tuned", "held out", "hard")
NOW = date(2026, 6, 30)


@dataclass(frozen=True)
class Score:
    """Counts of one rule: flagged and should be, flagged wrongly, and missed."""

    right: int
    wrong: int
    missed: int

    @property
    def precision(self) -> float | None:
        """The share of what was flagged that should be; None where nothing was."""
        found = self.right + self.wrong
        return self.right / found if found else None

    @property
    def recall(self) -> float | None:
        """The share of what should be flagged that was; None where nothing should."""
        wanted = self.right + self.missed
        return self.right / wanted if wanted else None


def read_cases(path: Path = CASES) -> list[dict[str, Any]]:
    """The cases of a JSONL file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def judge(case: Mapping[str, Any]) -> dict[str, Verdict]:
    """The verdict of each rule on a case, on the day NOW, with a limit of 365 days."""
    sources = [_source(passage, marker) for marker, passage in enumerate(case["passages"], start=1)]
    dates = {
        source.doc_id: date.fromisoformat(passage["date"])
        for source, passage in zip(sources, case["passages"], strict=True)
        if "date" in passage
    }
    config = Guardrails(confidence="off", date_field="date", now=NOW)
    checked = check_citations(case["answer"], sources, question=case["question"])
    guarded = guard(config, case["question"], checked, sources, Retrieved([], {}, dates))
    return {verdict.rule: verdict for verdict in guarded.verdicts}


def numbers_of(verdict: Verdict) -> list[str]:
    """The numbers that number grounding reports."""
    return [finding.text for finding in verdict.findings]


def score(cases: Sequence[Mapping[str, Any]], rule: str) -> Score:
    """How a rule does on cases; "numbers" counts the numbers that grounding reports."""
    right = wrong = missed = 0
    for case in cases:
        verdicts = judge(case)
        if rule == "numbers":
            wanted, found = set(case.get("numbers", [])), set(numbers_of(verdicts["grounding"]))
        else:
            wanted = {rule} & set(case["flagged"])
            found = {rule} if verdicts[rule].status == "flagged" else set()
        right += len(wanted & found)
        wrong += len(found - wanted)
        missed += len(wanted - found)
    return Score(right, wrong, missed)


def failures(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each rule that says something else than the case's label."""
    for case in cases:
        for rule, verdict in judge(case).items():
            flagged = verdict.status == "flagged"
            if flagged != (rule in case["flagged"]):
                said = "flags" if flagged else "misses"
                yield f"{rule} {said} {case['id']}: {case['answer']!r} ({verdict.reason})"


def _source(passage: Mapping[str, Any], marker: int) -> Source:
    text = passage["text"]
    made = Passage(
        rank=marker, score=1 / marker, chunk_id=f"c{marker}", doc_id=f"d{marker}",
        uri=f"file:///cases/passage-{'abcdefgh'[marker - 1]}.txt", title=passage.get("title", ""),
        pages=None, section=passage.get("section", ""), kind="section", parent_id=None, ordinal=0,
        start=0, end=len(text), header=passage.get("header", ""), text=text,
    )  # fmt: skip
    return dataclasses.replace(join([(marker - 1, made)]), marker=marker)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table, and on request what is judged otherwise than labelled."""
    parser = argparse.ArgumentParser(prog="benchmarks.guardrails", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--cases", type=Path, default=CASES)
    parser.add_argument("--failures", choices=[*PARTS, "all"], help="list those of a part")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args(arguments)
    cases = read_cases(options.cases)
    parts = {part: [case for case in cases if case["part"] == part] for part in PARTS}
    parts["all"] = cases
    figures: dict[str, Any] = {}
    for name, part in parts.items():
        print(f"\n{name}: {len(part)} cases")
        print(f"{'rule':<12}{'should flag':>12}{'precision':>11}{'recall':>8}")
        for rule in (*RULES, "numbers"):
            found = score(part, rule)
            print(f"{rule:<12}{found.right + found.missed:>12}"
                  f"{_shown(found.precision):>11}{_shown(found.recall):>8}")  # fmt: skip
            figures.setdefault(name, {})[rule] = {
                "precision": found.precision, "recall": found.recall, **vars(found),
            }  # fmt: skip
    if options.failures:
        print("\n".join(["", *failures(parts[options.failures])]))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


if __name__ == "__main__":
    sys.exit(main())
