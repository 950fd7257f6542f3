"""What a run knows before its first step: its settings, what there is, and what is to be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rag_cluster import changes, work
from rag_cluster.cluster import Size
from rag_cluster.config import Config
from rag_cluster.errors import CollectionError, SourceError, UsageError
from rag_cluster.hashes import Hashes
from rag_cluster.index.manifest import fingerprints
from rag_cluster.parse.sources import list_files
from rag_cluster.parse.stage import parser_fingerprint
from rag_cluster.storage import Collection, Writer, current_version


@dataclass(frozen=True)
class Run:
    """What a run knows before its first step.

    `model` is the language model that writes for the chunks, if one does. `known` are the files
    that hold vectors of this encoder; `fits` says that what is published was made with these
    settings.
    """

    config: Config
    size: Size
    encoder: dict[str, Any]
    model: dict[str, Any] | None
    writer: Writer
    old: Collection | None
    changes: changes.Changes
    current: Hashes  # see `work.are_current`
    known: tuple[Path, ...]
    fits: bool

    @property
    def work(self) -> Path:
        """The folder of what is finished."""
        return self.writer.work

    @property
    def files_bytes(self) -> int | None:
        """The bytes of the files to parse; None where stored documents are chunked again."""
        if self.changes.restore:
            return None
        return int(pc.sum(self.changes.files["size"]).as_py() or 0)

    @property
    def unchanged(self) -> bool:
        """Whether the published version is what this run would make."""
        found = self.changes
        idle = not (found.files.num_rows or found.restore or len(found.gone))
        return idle and self.like_before

    @property
    def like_before(self) -> bool:
        """Whether the published version was made with the settings of this run."""
        if self.old is None or not self.fits:
            return False
        try:
            made = self.old.config
        except CollectionError:  # another version's, with keys that this one has not
            return False
        return made.stored() == self.config.stored()


def list_sources(
    sources: Sequence[str], place: Path, config: Config, *, retry_failed: bool
) -> pa.Table:
    """The FILE rows of the sources; with `retry_failed` and no source, of what has failed before.

    Raises UsageError where there is nothing to read.
    """
    if sources or not retry_failed:
        return list_files(sources, config)
    uris = changes.failed_uris(Collection.open(place).documents(work.IDENTITY))
    if not uris:
        raise UsageError(f"no document of {place} has failed: there is nothing to try again")
    found = []
    for uri in uris:
        try:
            listed = list_files([uri], config)
        except SourceError:
            continue  # it is gone: its row stays as it is
        found.append(listed.filter(pc.equal(listed["uri"], uri)))  # and not what a folder holds
    if not found:
        raise UsageError(
            f"none of the {len(uris)} files that failed is there any more, such as {uris[0]}"
        )
    return pa.concat_tables(table.replace_schema_metadata(None) for table in found)


def prepare(
    writer: Writer,
    listing: pa.Table,
    config: Config,
    encoder: dict[str, Any],
    model: dict[str, Any] | None,
    size: Size,
    *,
    sync: bool,
    retry_failed: bool,
) -> Run:
    """Compares the listing with what is published and with what an interrupted run has left."""
    old = Collection.open(writer.path) if current_version(writer.path) else None
    shards = config.index.shards
    work.drop_unreadable(
        writer.work,
        shards,
        work.part_schema(
            config.metadata.fields, encoder["dim"], sparse=config.sparse.model is not None
        ),
    )
    current = changes.current_contents(listing)
    same_encoder = old is not None and old.manifest["encoder"] == encoder
    made = fingerprints(config)["made"]
    fits = old is None or (
        same_encoder
        and old.manifest["fingerprints"]["made"] == made
        and _model_of(old.manifest) == model
    )
    found = changes.find_changes(
        listing,
        work.no_documents() if old is None else old.documents(work.IDENTITY),
        work.finished(writer.work, shards, current),
        parser_fingerprint(config),
        fits=fits,
        sync=sync,
        retry_failed=retry_failed,
    )
    known = [path for i in range(shards) for path in work.part_files(writer.work, work.CHUNKS, i)]
    if old is not None and same_encoder:
        known += [*old.files_of("vectors"), *old.files_of("left_out")]
    return Run(config, size, encoder, model, writer, old, found, current, tuple(known), fits)


def _model_of(manifest: dict[str, Any]) -> dict[str, Any] | None:
    """The language model that wrote for a version's chunks; None if none did."""
    llm = manifest.get("llm")
    return None if llm is None else {name: llm[name] for name in llm if name != "written"}
