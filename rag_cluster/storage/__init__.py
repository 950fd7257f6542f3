"""A collection on disk: its layout, its versions, and how one is published.

    <collection>/
      CURRENT                     the published version's name; replaced atomically, last
      LOCK                        held by the one writer; says who and since when
      versions/<version>/
        manifest.json             what made it, and what is in it
        documents/ chunks/ vectors/ dense/ lexical/ sparse/     one shard-NNNNN file (or folder)
        duplicates/ left_out/       signatures, and what near-duplicates would add to the index
      work/<run>/                 what a running ingest has finished

A version is immutable. Readers see the old version or the new one, never half of one: everything
is written beside the published version, and renaming one small file publishes it.
"""

from rag_cluster.storage.cache import local_copy
from rag_cluster.storage.chunks import PASSAGE_COLUMNS, ChunkStore
from rag_cluster.storage.collection import Collection
from rag_cluster.storage.files import (
    checksum,
    file_entries,
    read_shard,
    read_table,
    shard_name,
    write_file,
    write_table,
)
from rag_cluster.storage.manifest import FORMAT, read_manifest
from rag_cluster.storage.places import check_place, place
from rag_cluster.storage.versions import check_current, current_version
from rag_cluster.storage.writer import Writer

__all__ = [
    "FORMAT",
    "PASSAGE_COLUMNS",
    "ChunkStore",
    "Collection",
    "Writer",
    "check_current",
    "check_place",
    "checksum",
    "current_version",
    "file_entries",
    "local_copy",
    "place",
    "read_manifest",
    "read_shard",
    "read_table",
    "shard_name",
    "write_file",
    "write_table",
]
