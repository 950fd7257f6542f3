"""A real server with OpenAI's chat API that takes its time, and notices when it is left."""

from __future__ import annotations

import contextlib
import json
import select
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MOST_S = 20.0


class SlowLLM:
    """What a test sees of the server: `asked` and `left` are set when that happened.

    A stream gives a word every `pace_s` seconds; a whole answer does not come at all. `prompts`
    are the calls.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked = threading.Event()
        self.left = threading.Event()
        self.prompts: list[dict[str, Any]] = []
        self.pace_s = 0.05


@contextlib.contextmanager
def slow_llm() -> Iterator[SlowLLM]:
    """The server on a free port."""
    seen = SlowLLM()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            call = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.prompts.append(call)
            seen.asked.set()
            if call.get("stream"):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
            for number in range(round(MOST_S / seen.pace_s)):
                if self._is_left():
                    seen.left.set()
                    return
                if call.get("stream"):
                    delta = {"content": f"word{number} "}
                    event = {"choices": [{"index": 0, "delta": delta}]}
                    with contextlib.suppress(ConnectionError):
                        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

        def _is_left(self) -> bool:
            """Whether the caller has closed the connection; looks for `pace_s`."""
            readable, _, _ = select.select([self.connection], [], [], seen.pace_s)
            try:
                return bool(readable) and not self.connection.recv(1)
            except ConnectionError:
                return True

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    seen.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
