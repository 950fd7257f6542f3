"""The section of the guardrails."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from rag_cluster.config.section import Section, key


def _off(value: Any) -> Any:
    """YAML reads a bare `off` as false."""
    return "off" if value is False else value


Action = Annotated[Literal["off", "annotate", "block"], BeforeValidator(_off)]


class Guardrails(Section):
    coverage: Action = key(
        "annotate",
        "share of the answer's sentences that a passage supports. Each rule is off, annotate (it "
        "reports), or block (the answer is withheld where the rule would report)",
    )
    grounding: Action = key("annotate", "every number of the answer stands in a passage")
    confidence: Action = key(
        "annotate", "low, medium or high, by the search's scores; low is flagged"
    )
    stale: Action = key("annotate", "a cited document is older than max_age_days")
    temporal: Action = key(
        "annotate", "the question asks for now or for a year, the sources are older"
    )
    injection: Action = key("annotate", "a passage holds what reads like an instruction to a model")
    min_coverage: float = key(
        1.0, "coverage: the share of sentences that must be supported", ge=0, le=1
    )
    date_field: str | None = key(
        None, "stale, temporal: the declared field (date, or int for a year) with a document's date"
    )
    max_age_days: int = key(365, "stale, temporal: days after which a document is old", ge=0)
    now: date | None = key(
        None, "stale, temporal: the day that counts as today, such as 2026-06-30; null = today"
    )

    @property
    def blocks(self) -> bool:
        """Whether any rule may withhold an answer."""
        rules = ("coverage", "grounding", "confidence", "stale", "temporal", "injection")
        return any(getattr(self, rule) == "block" for rule in rules)

    def check(self, fields: dict[str, Any]) -> None:
        """Raises ValueError where `date_field` is not declared with a type that has a date."""
        if self.date_field is None:
            return
        kind = fields.get(self.date_field)
        if kind not in ("date", "int"):
            what = "is not declared in metadata.fields" if kind is None else f"is of type {kind}"
            raise ValueError(
                f"guardrails.date_field {self.date_field!r} {what}: declare it as date (or as int, "
                f"for a year), such as metadata.fields={{{self.date_field}: date}}"
            )
