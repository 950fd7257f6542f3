"""A small real HTTP server with OpenAI's chat API, whose answers a test decides."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    wait: threading.Event | None = None


def answer(text: str, call: dict[str, Any]) -> Reply:
    """The text as a whole, or as a stream of its words where the call asks for one."""
    if call.get("stream"):
        words = [word + " " for word in text.split(" ")]
        words[-1] = words[-1][:-1]
        events = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in words]
        lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]
        return Reply(body="".join(lines).encode(), headers={"Content-Type": "text/event-stream"})
    message = {"role": "assistant", "content": text}
    body = {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": call["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
    }
    return Reply(body=json.dumps(body).encode())


def likely(likelihoods: dict[str, float] | None, call: dict[str, Any]) -> Reply:
    """A first token with the logarithms of the likeliest ones, or without any."""
    listed = [{"token": token, "logprob": log} for token, log in (likelihoods or {}).items()]
    content = [listed[0] | {"top_logprobs": listed}] if listed else []
    body = json.loads(answer("yes", call).body)
    body["choices"][0]["logprobs"] = {"content": content} if likelihoods is not None else None
    return Reply(body=json.dumps(body).encode())


@contextlib.contextmanager
def serve(decide: Callable[[dict[str, Any]], Reply]) -> Iterator[str]:
    """The server's base URL, while `decide` turns each call's JSON into a reply."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            reply = decide(json.loads(self.rfile.read(length)))
            if reply.wait is not None:
                reply.wait.wait(30)
            with contextlib.suppress(ConnectionError):
                self.send_response(reply.status)
                headers = {"Content-Type": "application/json"} | reply.headers
                for name, value in (headers | {"Content-Length": str(len(reply.body))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
