"""Servers for tests of the Elasticsearch engine: a real process, and a proxy that makes trouble."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from osmem_server import OsmemServer


class Server(NamedTuple):
    """An address, and what `index.lexical.elastic.api` has to be for it."""

    url: str
    api: str


def named_server() -> Server | None:
    """The server of ELASTICSEARCH_URL and ELASTICSEARCH_API, for the same contract."""
    url = os.environ.get("ELASTICSEARCH_URL")
    return Server(url, os.environ.get("ELASTICSEARCH_API", "elasticsearch")) if url else None


@contextmanager
def opensearch_process() -> Iterator[Server]:
    """osmem-server: OpenSearch's REST API in a process of its own, over HTTP."""
    with OsmemServer.start(japanese=False, addr="127.0.0.1:0") as process:
        yield Server(process.url, "opensearch")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Proxy(ThreadingHTTPServer):
    """Passes requests on to a server, and spoils some of the bulk requests.

    `faults` are taken one by one: an HTTP status to answer instead; "lost" closes the connection
    before the request is passed on, "lost answer" after it; "items" turns away each second item.
    `media_type` asks for Elasticsearch's media type and takes it off before passing on.
    """

    daemon_threads = True

    def __init__(self, target: str, *, media_type: bool = False, product: bool = True) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(target)
        self.media_type = media_type
        self.product = product
        self.faults: list[int | str] = []
        self.bulk_sizes: list[int] = []
        self.authorization: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.authorization.append(self.headers.get("Authorization"))
        content_type = self.headers.get("Content-Type", "")
        if self.server.media_type and content_type:
            if "application/vnd.elasticsearch+" not in content_type:
                return self.give(406, {"error": {"type": "media_type", "reason": content_type}})
            content_type = re.sub(r"/vnd\.elasticsearch\+([\w-]+);.*", r"/\1", content_type)
        fault = None
        if self.path.split("?")[0].endswith("_bulk"):
            self.server.bulk_sizes.append(body.count(b"\n") // 2)
            fault = self.server.faults.pop(0) if self.server.faults else None
        if isinstance(fault, int):
            return self.give(fault, {"error": {"type": "es_rejected_execution", "reason": "busy"}})
        if fault == "lost":
            return self.hang_up()
        if fault == "items":
            return self.give_half(body, content_type)
        status, answer = self.forward(body, content_type)
        if fault == "lost answer":
            return self.hang_up()
        return self.give(status, answer)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any  # noqa: N815

    def forward(self, body: bytes, content_type: str) -> tuple[int, object]:
        target = self.server.target
        connection = http.client.HTTPConnection(target.hostname or "", target.port)
        headers = {"Content-Type": content_type} if content_type else {}
        connection.request(self.command, self.path, body or None, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return answer.status, json.loads(data) if data else {}

    def give_half(self, body: bytes, content_type: str) -> None:
        """Passes on each second item, and says that the others were turned away."""
        lines = body.splitlines(keepends=True)
        pairs = [lines[i : i + 2] for i in range(0, len(lines), 2)]
        passed = b"".join(line for pair in pairs[::2] for line in pair)
        _, answer = self.forward(passed, content_type)
        assert isinstance(answer, dict)
        given = iter(answer["items"])
        error = {"type": "es_rejected_execution_exception", "reason": "queue is full"}
        answer["items"] = [
            {"create": {"_id": json.loads(pair[0])["create"]["_id"], "status": 429, "error": error}}
            if number % 2
            else next(given)
            for number, pair in enumerate(pairs)
        ]
        answer["errors"] = True
        self.give(200, answer)

    def give(self, status: int, answer: object) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        if self.server.product:
            self.send_header("X-Elastic-Product", "Elasticsearch")
        if self.server.media_type:
            self.send_header("Content-Type", "application/vnd.elasticsearch+json;compatible-with=9")
        else:
            self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        pass
