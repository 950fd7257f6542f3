"""Near-duplicate documents of a collection: signed shard by shard, found over all shards.

A version keeps the signatures, so that only new and changed documents are signed:

    duplicates/shard-NNNNN.parquet    SIGNED rows, one for each document that is ok
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rag_cluster.config import Duplicates
from rag_cluster.hashes import Hashes, Words, as_words, digest
from rag_cluster.index import leaders, minhash
from rag_cluster.index.documents import Job, new_documents, old_rows, owners_of_ids, staying
from rag_cluster.schema import conform
from rag_cluster.storage.files import read_shard, shard_name, write_table
from rag_cluster.work import DOCUMENTS, IDENTITY, document_keys

FOLDER = "duplicates"


def signed_schema(permutations: int) -> pa.Schema:
    """The schema SIGNED.

    `key` names the document's content and what made its signature, `text` its text but for white
    space; the signature of a document that is too short to be `signed` is zeros.
    """
    return pa.schema(
        [
            ("doc_id", pa.string()),
            ("key", pa.binary(16)),
            ("text", pa.binary(16)),
            ("signed", pa.bool_()),
            ("signature", pa.list_(pa.uint32(), permutations)),
        ]
    )


@dataclass
class Signed:
    """What is known of a shard's n documents: doc_id and uri, and what `leaders` wants."""

    documents: pa.Table
    texts: Words
    bands: NDArray[np.uint64]
    signed: NDArray[np.bool_]
    new: int  # how many were signed now


def sign_shard(shard: int, job: Job) -> Signed:
    """Writes the signatures of a shard's documents: those there already, and those made now."""
    config = job.config.duplicates
    new, before = new_documents(shard, job), old_rows(job, DOCUMENTS, shard, IDENTITY)
    stay = before.filter(pa.array(staying(before, job)))
    both = pa.concat_tables([new.select(IDENTITY), stay.select(IDENTITY)])
    owners = owners_of_ids(both)
    new = new.take(pa.array(owners[owners < new.num_rows]))
    documents = _good(both.take(pa.array(owners)))
    keys = _keys(documents, config)
    known = old_rows(job, FOLDER, shard)
    at = Hashes(as_words(known["key"].to_pylist() if known.num_rows else [])).find(as_words(keys))
    unsigned = documents.filter(pa.array(at < 0))
    made = _signed(unsigned, _texts(unsigned, new, shard, job), config)
    table = made
    if (at >= 0).any():
        held = known.take(pa.array(at[at >= 0]))
        table = pa.concat_tables([conform(held, made.schema), made])
    order = pc.index_in(documents["doc_id"], value_set=table["doc_id"].combine_chunks())
    table = table.take(order.combine_chunks())
    path = job.folder / FOLDER / f"{shard_name(shard)}.parquet"
    write_table(table, path, row_group_size=20_000)
    rows = minhash.rows_of_a_band(config.threshold, config.permutations)
    return Signed(
        documents=documents.select(["doc_id", "uri"]),
        texts=as_words(table["text"].to_pylist()),
        bands=minhash.band_hashes(_signatures(table, config.permutations), rows),
        signed=table["signed"].to_numpy(),
        new=made.num_rows,
    )


def find_duplicates(found: Sequence[Signed], folder: Path, config: Duplicates) -> pa.Table:
    """The near-duplicates of a version's shards, with the one that each is a duplicate of.

    Columns doc_id and duplicate_of. Of like documents the first by (uri, doc_id) is no duplicate.
    """
    documents = pa.concat_tables(part.documents for part in found)
    keys = [("uri", "ascending"), ("doc_id", "ascending")]
    order = pc.sort_indices(documents, sort_keys=keys).to_numpy().astype(np.int64)
    ends = np.cumsum([0, *(part.documents.num_rows for part in found)])

    def read(rows: leaders.Rows) -> minhash.Signatures:
        return _read_signatures(order[rows], ends, folder, config.permutations)

    leader = leaders.find_leaders(
        np.concatenate([part.texts for part in found])[order],
        np.concatenate([part.bands for part in found])[order],
        np.concatenate([part.signed for part in found])[order],
        read,
        leaders.least_equal(config.threshold, config.permutations),
    )
    ids = documents["doc_id"].combine_chunks().take(pa.array(order))
    led = np.flatnonzero(leader != np.arange(len(leader)))
    return pa.table(
        {"doc_id": ids.take(pa.array(led)), "duplicate_of": ids.take(pa.array(leader[led]))}
    )


def summary(job: Job) -> dict[str, int] | None:
    """How many documents are near-duplicates, and of how many others; None if not looked for."""
    if job.config.duplicates.near == "none":
        return None
    return {
        "documents": job.duplicates.num_rows,
        "clusters": len(pc.unique(job.duplicates["duplicate_of"])),
    }


def _read_signatures(
    rows: NDArray[np.int64], ends: NDArray[np.int64], folder: Path, permutations: int
) -> minhash.Signatures:
    """The signatures of rows of the shards' files, which are counted on from file to file."""
    made = np.empty((len(rows), permutations), np.uint32)
    for shard in range(len(ends) - 1):
        mine = np.flatnonzero((rows >= ends[shard]) & (rows < ends[shard + 1]))
        if len(mine):
            path = folder / FOLDER / f"{shard_name(shard)}.parquet"
            table = read_shard(path, columns=["signature"])
            made[mine] = _signatures(table, permutations)[rows[mine] - ends[shard]]
    return made


def _signatures(table: pa.Table, permutations: int) -> minhash.Signatures:
    flat = table["signature"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    made: minhash.Signatures = flat.reshape(-1, permutations)
    return made


def _signed(documents: pa.Table, texts: list[str], config: Duplicates) -> pa.Table:
    made, signed = minhash.signatures(texts, config)
    columns = [
        documents["doc_id"].combine_chunks(),
        pa.array(_keys(documents, config), pa.binary(16)),
        pa.array([digest(" ".join(text.split())) for text in texts], pa.binary(16)),
        pa.array(signed),
        pa.FixedSizeListArray.from_arrays(pa.array(made.reshape(-1)), config.permutations),
    ]
    return pa.table(columns, schema=signed_schema(config.permutations))


def _texts(documents: pa.Table, new: pa.Table, shard: int, job: Job) -> list[str]:
    """The documents' texts: of those read now, or from the published version."""
    table = new.select(["doc_id", "text"])
    if not pc.all(pc.is_in(documents["doc_id"], value_set=_ids(new))).as_py():
        old = old_rows(job, DOCUMENTS, shard, ["doc_id", "text"])
        old = old.filter(pc.invert(pc.is_in(old["doc_id"], value_set=_ids(new))))
        table = pa.concat_tables([table, old])
    at = pc.index_in(documents["doc_id"], value_set=_ids(table))
    texts: list[str] = table["text"].combine_chunks().take(at.combine_chunks()).to_pylist()
    return texts


def _ids(table: pa.Table) -> pa.Array:
    return table["doc_id"].combine_chunks()


def _good(documents: pa.Table) -> pa.Table:
    return documents.filter(pc.equal(documents["status"], "ok"))


def _keys(documents: pa.Table, config: Duplicates) -> list[bytes]:
    made_by = minhash.fingerprint_of(config)
    return [digest(key.hex(), made_by) for key in document_keys(documents)]
