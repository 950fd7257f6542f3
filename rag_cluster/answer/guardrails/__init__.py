"""Guardrails: rules on an answer and its sources that need no model. They annotate, or block.

One rule, one file: `coverage`, `grounding`, `confidence`, `staleness`, `temporal`, `injection`;
`check` runs them and applies the configuration.
"""

from rag_cluster.answer.guardrails.check import Guarded, Retrieved, guard, read_date
from rag_cluster.answer.guardrails.verdict import Finding, Verdict

__all__ = ["Finding", "Guarded", "Retrieved", "Verdict", "guard", "read_date"]
