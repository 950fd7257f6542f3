"""What a rule found: a status, a value, and the places in the answer or the passages."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Rule = Literal["coverage", "grounding", "confidence", "stale", "temporal", "injection"]
Status = Literal["ok", "flagged", "blocked", "not_applicable"]
Value = float | int | str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found. `note` says it in a sentence.

    `start` and `end` are a span of the answer as it is shown, where `within` is "answer", or of the
    text of the source with this `marker`.
    """

    within: Literal["answer", "source"]
    text: str
    note: str
    start: int | None = None
    end: int | None = None
    marker: int | None = None
    chunk_id: str | None = None

    def to_json(self) -> dict[str, Any]:
        """What is known of it; the sentence is among the answer's notes."""
        known = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            name: value for name, value in known.items() if name != "note" and value is not None
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says of an answer.

    `value` is what it measured (a share, a count, a label), None where it does not apply; `reason`
    says in a sentence what that is and how it came about; `measured` are the figures behind it.
    """

    rule: Rule
    status: Status
    value: Value
    reason: str
    findings: tuple[Finding, ...] = ()
    measured: Mapping[str, float] = field(default_factory=dict)

    @property
    def notes(self) -> list[str]:
        """What a reader should know, in words; nothing where all is well."""
        if self.status not in ("flagged", "blocked"):
            return []
        return list(dict.fromkeys(finding.note for finding in self.findings)) or [self.reason]

    def to_json(self) -> dict[str, Any]:
        """As it stands in the JSON of an answer."""
        return {
            "status": self.status,
            "value": self.value,
            "reason": self.reason,
            "measured": dict(self.measured),
            "findings": [finding.to_json() for finding in self.findings],
        }


def passed(
    rule: Rule,
    value: Value,
    reason: str,
    findings: tuple[Finding, ...] = (),
    *,
    measured: Mapping[str, float] | None = None,
) -> Verdict:
    """A verdict that nothing is wrong."""
    return Verdict(rule, "ok", value, reason, findings, measured or {})


def flagged(
    rule: Rule,
    value: Value,
    reason: str,
    findings: tuple[Finding, ...] = (),
    *,
    measured: Mapping[str, float] | None = None,
) -> Verdict:
    """A verdict that something is."""
    return Verdict(rule, "flagged", value, reason, findings, measured or {})


def not_applicable(rule: Rule, reason: str) -> Verdict:
    """A verdict that the rule has nothing to look at."""
    return Verdict(rule, "not_applicable", None, reason)
