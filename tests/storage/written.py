"""Small versions without an index, for tests of what surrounds them."""

from __future__ import annotations

import pyarrow as pa

from rag_cluster.storage import FORMAT, Writer, file_entries, write_table

NAME = "chunks/shard-00000.parquet"


def publish(path: str, rows: int, run: str = "") -> str:
    """Publishes a version of one file with so many rows; returns its name."""
    with Writer(path, run) as writer:
        file = writer.folder / "chunks" / "shard-00000.parquet"
        write_table(pa.table({"row": list(range(rows))}), file)
        files = file_entries(writer.folder, [file])
        manifest = {
            "format": FORMAT,
            "created": "2025-01-01T00:00:00+00:00",
            "documents_total": 1,
            "chunks": rows,
            "shards": [{"files": files}],
        }
        writer.publish(manifest)
    return writer.version
