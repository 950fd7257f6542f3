"""Looking after a collection: `inspect`, `versions`, `rollback`, `prune` and `delete`."""

from __future__ import annotations

from typing import Annotated

import typer

from rag_cluster.cli.app import app
from rag_cluster.cli.options import CollectionOption, FilterOption, JsonOption, parse_json, tell


@app.command()
def inspect(
    collection: CollectionOption,
    failures: Annotated[bool, typer.Option("--failures", help="What failed, and why.")] = False,
    document: Annotated[
        str | None, typer.Option("--document", metavar="URI", help="A uri, id or file's name.")
    ] = None,
    chunks: Annotated[bool, typer.Option("--chunks", help="The chunks (of a document).")] = False,
    audit: Annotated[
        bool, typer.Option("--audit", help="Prove spans, ids, parents, order and checksums.")
    ] = False,
    duplicates: Annotated[
        bool, typer.Option("--duplicates", help="Documents that nearly equal others.")
    ] = False,
    report: Annotated[
        bool, typer.Option("--report", help="What its ingest took, and what more would take.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Look into a collection."""
    from rag_cluster import inspection
    from rag_cluster.errors import UsageError
    from rag_cluster.show import inspection as show
    from rag_cluster.storage import Collection

    asked = {"--audit": audit, "--report": report, "--failures": failures,
             "--document": document is not None}  # fmt: skip
    if sum(asked.values()) > 1:
        both = " and ".join(name for name, given in asked.items() if given)
        raise UsageError(f"{both}: ask for one at a time")
    opened = Collection.open(collection, verify=not audit)
    if audit:
        content = inspection.audit(opened)
    elif report:
        content = inspection.last_report(opened)
    elif failures:
        content = inspection.failures(opened)
    elif duplicates:
        content = inspection.duplicates(opened)
    elif document is not None:
        content = inspection.document(opened, document, with_chunks=chunks)
    elif chunks:
        content = inspection.chunks(opened)
    else:
        content = inspection.overview(opened)
    tell(content, show.report, as_json=as_json)
    if audit and content["problems"]:
        raise typer.Exit(1)


@app.command()
def versions(collection: CollectionOption, as_json: JsonOption = False) -> None:
    """List the versions of a collection."""
    from rag_cluster import versions as upkeep
    from rag_cluster.show import versions as show

    report = upkeep.listing(collection)
    tell(report, show.listing, as_json=as_json)


@app.command()
def rollback(version: str, collection: CollectionOption, as_json: JsonOption = False) -> None:
    """Make another version of a collection the current one."""
    from rag_cluster import versions as upkeep
    from rag_cluster.show import versions as show

    report = upkeep.rollback(collection, version)
    tell(report, show.rolled_back, as_json=as_json)


@app.command()
def prune(
    collection: CollectionOption,
    keep: Annotated[int, typer.Option("--keep", min=1, help="The newest versions to keep.")],
    as_json: JsonOption = False,
) -> None:
    """Delete old versions of a collection; the current one always stays."""
    from rag_cluster import versions as upkeep
    from rag_cluster.show import versions as show

    report = upkeep.prune(collection, keep)
    tell(report, show.pruned, as_json=as_json)


@app.command()
def delete(
    collection: CollectionOption,
    document: Annotated[
        list[str] | None,
        typer.Option("--document", metavar="URI", help="A uri, id or file's name; repeatable."),
    ] = None,
    where: FilterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a version without some documents, and prove that nothing of them is left in it."""
    from rag_cluster import deletion
    from rag_cluster.show import versions as show

    report = deletion.delete(collection, document or [], parse_json(where))
    tell(report, show.deletion, as_json=as_json)
