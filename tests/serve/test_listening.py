"""Where a service of one machine listens."""

from __future__ import annotations

import asyncio
import socket

import pytest

from rag_cluster.config import Service
from rag_cluster.errors import ConfigError
from serve.listening import bound, listen, url


def test_small_pieces_are_sent_at_once() -> None:
    async def nodelay() -> int:
        taken: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            taken.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listening = bound(Service(port=0))
        async with await asyncio.start_server(connected, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            writer.close()
            return await taken

    assert asyncio.run(nodelay())


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_the_url_has_the_port_that_was_free(host: str, shown: str) -> None:
    with bound(Service(host=host, port=0)) as listening:
        port = listening.getsockname()[1]
        assert port
        assert url(listening) == f"http://{shown}:{port}"


def test_who_comes_second_is_told_when_it_listens() -> None:
    with bound(Service(port=0)) as first, bound(Service(port=first.getsockname()[1])) as second:
        listen(first, 1)
        with pytest.raises(ConfigError, match=r"cannot listen at 127.0.0.1:\d+ .*--port"):
            listen(second, 1)
