"""A place for a collection, on disk and in an object store."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["disk", "s3"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a collection can be made: a local path, or a url in a bucket of its own."""
    if request.param == "disk":
        return str(tmp_path / "made" / "c")
    return f"{request.getfixturevalue('bucket')}/made/c"
