"""Looking into a collection: overview, failures, documents, chunks, and the audit."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pyarrow.compute as pc

from rag_cluster.errors import UsageError
from rag_cluster.storage import Collection, read_shard

EXAMPLES = 5
REPORT = "report.json"


def overview(collection: Collection) -> dict[str, Any]:
    """What is in the published version and what made it."""
    manifest = collection.manifest
    return {
        "report": "overview",
        "collection": str(collection.path),
        **{
            name: manifest[name]
            for name in (
                "version", "created", "documents", "failures", "chunks", "searchable", "truncated",
                "near_duplicates", "encoder", "dense", "lexical", "fingerprints", "libraries",
                "config",
            )
        },
        "sparse": manifest.get("sparse"),
        "facts": manifest.get("facts"),
        "metadata_dropped": _unfit(collection),
        "shards": len(manifest["shards"]),
        "bytes": sum(
            entry["bytes"] for shard in manifest["shards"] for entry in shard["files"].values()
        ),
    }  # fmt: skip


def _unfit(collection: Collection) -> dict[str, int]:
    """For each declared field, how many documents have a value that is not of its type."""
    from rag_cluster.fields import count_unfit

    return count_unfit(collection.documents(["metadata", "status"]), collection.fields)


def last_report(collection: Collection) -> dict[str, Any]:
    """The report of the ingest that made the version. Raises UsageError where there is none."""
    try:
        text = (collection.folder / REPORT).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(
            f"{collection.version} of {collection.path} was not made by an ingest: no report"
        ) from None
    return {"report": "ingest", **json.loads(text)}


def failures(collection: Collection) -> dict[str, Any]:
    """Failed and empty documents by reason, with counts and all uris."""
    table = collection.documents(["uri", "status", "error", "detail"])
    table = table.filter(pc.not_equal(table["status"], "ok")).sort_by("uri")
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        groups[row["status"], row["error"] or "no text"].append(
            {"uri": row["uri"], "detail": row["detail"]}
        )
    return {
        "report": "failures",
        "failures": [
            {"status": status, "error": error, "count": len(rows), "documents": rows}
            for (status, error), rows in sorted(groups.items(), key=lambda g: (-len(g[1]), g[0]))
        ],
    }


def duplicates(collection: Collection) -> dict[str, Any]:
    """The clusters of near-duplicates: each document with those that nearly equal it."""
    if collection.manifest["near_duplicates"] is None:
        raise UsageError(
            f"near-duplicates of {collection.path} were not looked for: ingest with "
            "--set duplicates.near=mark"
        )
    table = collection.documents(["doc_id", "uri", "duplicate_of"]).sort_by("uri")
    rows = table.to_pylist()
    uri_of = {row["doc_id"]: row["uri"] for row in rows}
    clusters: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        if row["duplicate_of"] is not None:
            clusters[row["duplicate_of"]].append({"doc_id": row["doc_id"], "uri": row["uri"]})
    return {
        "report": "duplicates",
        "indexed_once": collection.manifest["config"]["duplicates"]["near"] == "index_once",
        **collection.manifest["near_duplicates"],
        "duplicates": [
            {"doc_id": name, "uri": uri, "nearly_equal": clusters[name]}
            for name, uri in uri_of.items()
            if name in clusters
        ],
    }


def _records_of(collection: Collection, name: str) -> list[str]:
    """The uris of the records of a file that is named by its uri or its file name."""
    table = collection.documents(["uri", "source"])
    files = [(source or {}).get("file") or "" for source in table["source"].to_pylist()]
    return [
        uri
        for uri, file in zip(table["uri"].to_pylist(), files, strict=True)
        if file == name or file.endswith(f"/{name}")
    ]


def document(collection: Collection, name: str, *, with_chunks: bool) -> dict[str, Any]:
    """One document: all of its row, its sections, and its chunks if asked."""
    found = collection.find_documents(name)
    if records := [] if found else _records_of(collection, name):
        raise UsageError(
            f"{name} is a file of {len(records)} records: name one of them, such as {records[0]}"
        )
    if not found:
        raise UsageError(
            f"no document {name!r} in {collection.path}: name its uri, id or file name"
        )
    if len(found) > 1:
        uris = [str((collection.document(doc, ["uri"]) or {})["uri"]) for doc in found[:EXAMPLES]]
        raise UsageError(f"{len(found)} documents are named {name!r}, such as {', '.join(uris)}")
    row = collection.document(found[0])
    assert row is not None
    row["metadata"] = json.loads(row["metadata"] or "{}")
    report: dict[str, Any] = {"report": "document", "document": row, "duplicate_of": None}
    if row["duplicate_of"] is not None:
        report["duplicate_of"] = collection.document(row["duplicate_of"], ["doc_id", "uri"])
    if with_chunks:
        report["chunks"] = _chunks(collection, found[0])
    return report


def chunks(collection: Collection) -> dict[str, Any]:
    """All chunks, document by document."""
    return {"report": "chunks", "chunks": _chunks(collection, None)}


def audit(collection: Collection) -> dict[str, Any]:
    """Proves the invariants of documents and chunks, and that no file changed since it was made."""
    from rag_cluster.chunk.audit import audit as audit_chunks

    problems = _audit_files(collection)
    checked = 0
    for shard in range(collection.shards) if not problems else ():
        documents = read_shard(collection.shard_path("documents", shard))
        rows = collection.all_chunks(shard)
        checked += rows.num_rows
        problems += [
            {"chunk_id": problem.chunk_id, "problem": problem.what}
            for problem in audit_chunks(documents, rows)
        ]
    if not problems:
        problems = _audit_duplicates(collection)
    return {
        "report": "audit",
        "version": collection.version,
        "chunks": checked,
        "documents": collection.manifest["documents_total"],
        "problems": problems,
    }


def _audit_files(collection: Collection) -> list[dict[str, Any]]:
    return [{"file": name, "problem": problem} for name, problem in collection.problems()]


def _audit_duplicates(collection: Collection) -> list[dict[str, Any]]:
    """A duplicate names a document that is there and none itself; left out are only duplicates."""
    table = collection.documents(["doc_id", "status", "duplicate_of"])
    marked = table.filter(pc.is_valid(table["duplicate_of"]))
    leads = pc.and_(pc.is_null(table["duplicate_of"]), pc.equal(table["status"], "ok"))
    leaders = table.filter(leads)["doc_id"].combine_chunks()
    lost = marked.filter(pc.invert(pc.is_in(marked["duplicate_of"], value_set=leaders)))
    problems = [
        {"doc_id": name, "problem": "the document that it is a duplicate of is not there"}
        for name in lost["doc_id"].to_pylist()
    ]
    for path in collection.files_of("left_out"):
        rows = read_shard(path, columns=["chunk_id", "doc_id"])
        marks = marked["doc_id"].combine_chunks()
        wrong = rows.filter(pc.invert(pc.is_in(rows["doc_id"], value_set=marks)))
        problems += [
            {"chunk_id": name, "problem": "it is left out, and its document is no duplicate"}
            for name in wrong["chunk_id"].to_pylist()
        ]
    return problems


def _chunks(collection: Collection, doc_id: str | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    wanted = None if doc_id is None else [("doc_id", "=", doc_id)]
    for shard in range(collection.shards):
        table = read_shard(collection.shard_path("chunks", shard), filters=wanted)
        rows += table.to_pylist()
    return sorted(rows, key=lambda row: (row["doc_id"], row["ordinal"]))
