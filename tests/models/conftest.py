"""Models are compared with arithmetic by hand, in the same precision on every machine."""

import pytest

from rag_cluster.models import encoder


@pytest.fixture(autouse=True)
def _computes_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a processor without units for bfloat16 does."""
    monkeypatch.setattr(encoder, "processor_flags", frozenset)
