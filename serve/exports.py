"""This project's series out of what the metrics agents of a Ray cluster's nodes export."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterable

PREFIX = "ray_rag_cluster_"
TIMEOUT_S = 3.0


async def of_all_nodes(application: str) -> str:
    """The series of an application, from every node that answers, in Prometheus' text format.

    A node that does not answer is named in a comment.
    """
    import ray

    nodes = await asyncio.to_thread(ray.nodes)
    places = [
        (node["NodeManagerAddress"], int(node["MetricsExportPort"]))
        for node in nodes
        if node["Alive"]
    ]
    pages = await asyncio.gather(*(asyncio.to_thread(_page, *place) for place in places))
    silent = [
        f"# {host}:{port} did not answer\n"
        for (host, port), page in zip(places, pages, strict=True)
        if page is None
    ]
    return merged([page for page in pages if page is not None], application) + "".join(silent)


def merged(pages: Iterable[str], application: str) -> str:
    """The application's series of several pages, each metric's together under one heading."""
    headings: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    wanted = f'application="{application}"'
    for page in pages:
        name = ""
        for line in page.splitlines():
            if line.startswith("# "):
                _, kind, name, *_ = line.split(" ", 3)
                if name.startswith(PREFIX) and kind in ("HELP", "TYPE"):
                    heading = headings.setdefault(name, [])
                    if not any(other.startswith(f"# {kind} ") for other in heading):
                        heading.append(line)
            elif line.startswith(PREFIX) and wanted in _labels(line):
                samples.setdefault(name, []).append(line)
    return "".join(
        f"{line}\n" for name, found in samples.items() for line in (*headings.get(name, ()), *found)
    )


def _labels(line: str) -> list[str]:
    """The labels of a sample as `name="value"`; a quote within a value is escaped there."""
    _, _, rest = line.partition("{")
    return rest.rpartition("}")[0].replace('",', '"\n').split("\n")


def _page(host: str, port: int) -> str | None:
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        reply = connection.getresponse()
        return reply.read().decode() if reply.status == http.HTTPStatus.OK else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
