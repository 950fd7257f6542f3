"""Writing a new version, and publishing it atomically."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Self

from rag_cluster.errors import CollectionError
from rag_cluster.storage.files import folders, make_folder, remove, write_text
from rag_cluster.storage.lock import acquire, explained
from rag_cluster.storage.manifest import write_manifest
from rag_cluster.storage.places import check_place, is_local, place, refusals
from rag_cluster.storage.versions import CURRENT, current_version, folder_of, next_version, sweep


class Writer:
    """Writes one new version. Use as a context: it holds the collection's lock.

    `folder` takes the version's files and `work` what is on the way; `publish()` makes the version
    the current one. Leaving the context without it removes the version. The work of a named `run`
    stays then, so that a writer with the same name goes on from it; publishing ends all runs.
    Raises CollectionError where another process writes, or the disk or the store refuses.
    """

    def __init__(self, path: str | Path, run: str = "") -> None:
        found = place(path)
        self.path = found.absolute() if is_local(found) else found
        self.run = run
        self.version = ""

    def __enter__(self) -> Self:
        with explained(self.path):
            check_place(self.path)
            make_folder(self.path)
            self._lock = acquire(self.path)
            try:
                self._prepare()
            except BaseException:
                self._lock.release()
                raise
        return self

    def _prepare(self) -> None:
        sweep(self.path)
        self.version = next_version(self.path)
        self.folder = folder_of(self.path, self.version)
        self.work = self.path / "work" / (self.run or self.version)
        if not self.run:
            remove(self.work)
        make_folder(self.folder)
        make_folder(self.work)

    def __exit__(self, *_: object) -> None:
        try:
            # What cannot be removed now is swept by the next writer; the first error is to be told.
            with contextlib.suppress(CollectionError, *refusals()):
                if not self.run:
                    remove(self.work)
                if current_version(self.path) != self.version:
                    remove(self.folder)
        finally:
            self._lock.release()

    def publish(self, manifest: dict[str, Any]) -> None:
        """Writes the manifest, then names this version the current one, atomically.

        What runs have left in `work` goes. Raises CollectionError where the lock was lost.
        """
        with explained(self.path):
            write_manifest(self.folder, manifest)
            self._lock.check()
            write_text(self.path / CURRENT, self.version + "\n")
            for name in folders(self.path / "work"):
                remove(self.path / "work" / name)
