"""Where a service of one machine listens, and how it is ended."""

from __future__ import annotations

import signal
import socket
import threading

from rag_cluster.config import Service
from rag_cluster.errors import ConfigError


def bound(service: Service) -> socket.socket:
    """A socket at the host and port of the configuration, not listening yet.

    Raises ConfigError where there is no such address or it is in use.
    """
    family = socket.AF_INET6 if ":" in service.host else socket.AF_INET
    # By its protocol asyncio knows that it may send small pieces at once (TCP_NODELAY): without it
    # the end of a reply waits 40 ms for the client's acknowledgement of the beginning.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((service.host, service.port))
    except OSError as error:
        found.close()
        raise taken(f"{service.host}:{service.port}", error) from None
    return found


def listen(place: socket.socket, backlog: int) -> None:
    """Has a bound socket listen. Raises ConfigError where another program came first."""
    try:
        place.listen(backlog)
    except OSError as error:
        raise taken(url(place).removeprefix("http://"), error) from None


def taken(place: str, error: OSError) -> ConfigError:
    """What to say where it cannot be listened at."""
    return ConfigError(
        f"cannot listen at {place} ({error.strerror or error}): choose another with --port or "
        "--host"
    )


def url(listening: socket.socket) -> str:
    """What to open in a browser. The port is the one that was taken where 0 was asked for."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def wait_for_signal() -> None:
    """Waits for SIGINT or SIGTERM. From then on both interrupt what is done."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    while not stop.wait(1):
        pass
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
