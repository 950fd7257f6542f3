"""Writing a new version, and publishing it atomically."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from rag_cluster.errors import CollectionError
from rag_cluster.storage.collection import current_version
from rag_cluster.storage.files import write_text
from rag_cluster.storage.lock import lock


class Writer:
    """Writes one new version. Use as a context: it holds the collection's lock.

    `folder` takes the version's files and `work` what is on the way; `publish()` makes the version
    the current one. Leaving the context without it removes what was written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()
        self.version = ""

    def __enter__(self) -> Self:
        with _mapped(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = lock(self.path)
            try:
                self._prepare()
            except BaseException:
                self._lock.close()
                raise
        return self

    def _prepare(self) -> None:
        _sweep(self.path)
        self.version = _next_version(self.path)
        self.folder = self.path / "versions" / self.version
        self.work = self.path / "work" / self.version
        self.folder.mkdir(parents=True)
        self.work.mkdir(parents=True)

    def __exit__(self, *_: object) -> None:
        try:
            shutil.rmtree(self.work, ignore_errors=True)
            if current_version(self.path) != self.version:
                shutil.rmtree(self.folder, ignore_errors=True)
        finally:
            self._lock.close()

    def publish(self, manifest: dict[str, Any]) -> None:
        """Writes the manifest, then names this version the current one, atomically."""
        with _mapped(self.path):
            text = json.dumps(manifest, ensure_ascii=False, indent=2, sort_keys=True)
            write_text(self.folder / "manifest.json", text + "\n")
            write_text(self.path / "CURRENT", self.version + "\n")


def _next_version(path: Path) -> str:
    versions = path / "versions"
    taken = [int(p.name[1:]) for p in versions.glob("v*") if p.name[1:].isdigit()]
    return f"v{max(taken, default=0) + 1:06d}"


def _sweep(path: Path) -> None:
    """Removes what an interrupted writer left: its work, and versions without a manifest."""
    shutil.rmtree(path / "work", ignore_errors=True)
    for version in (path / "versions").glob("v*"):
        if not (version / "manifest.json").exists():
            shutil.rmtree(version, ignore_errors=True)


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CollectionError(f"cannot write the collection {path}: {error}") from None
