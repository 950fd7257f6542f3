"""Load on a service over HTTP: clients that wait for their answers, and requests that do not."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import numpy as np

# The path and the JSON of the next request.
Next = Callable[[], tuple[str, dict[str, Any]]]


class Load:
    """What clients saw: (seconds since the start, milliseconds, status) of every request."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float, int]] = []
        self.versions: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self._start = time.perf_counter()

    async def ask(self, client: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> int:
        """Sends one request; 0 stands for a connection that broke."""
        begun = time.perf_counter()
        status = 0
        try:
            async with client.post(path, json=body) as reply:
                text = await reply.text()
                status = reply.status
            if status == 200 and path == "/v1/search":
                self.versions[json.loads(text)["version"]] += 1
            elif status not in (200, 503):
                self.errors[text[:120]] += 1
        except (aiohttp.ClientError, TimeoutError) as error:
            self.errors[type(error).__name__] += 1
        now = time.perf_counter()
        self.seen.append((begun - self._start, (now - begun) * 1e3, status))
        return status

    def latency(self, since: float = 0.0, until: float = float("inf")) -> dict[str, float]:
        """Percentiles (ms) of the requests that were answered, and how many came a second."""
        times = [ms for at, ms, status in self.seen if status == 200 and since <= at < until]
        if not times:
            return {"answered": 0}
        span = min(until, max(at for at, _, _ in self.seen)) - since
        told = {f"p{q}_ms": round(float(np.percentile(times, q)), 1) for q in (50, 95, 99)}
        return {"answered": len(times), "per_s": round(len(times) / max(span, 1e-9), 1), **told}

    @property
    def statuses(self) -> dict[str, int]:
        """Requests by the status of their reply."""
        return {str(key): n for key, n in sorted(Counter(s for _, _, s in self.seen).items())}


def session(url: str) -> aiohttp.ClientSession:
    """A client without a limit of its own on connections, which costs little beside the service."""
    return aiohttp.ClientSession(
        url, timeout=aiohttp.ClientTimeout(60), connector=aiohttp.TCPConnector(limit=0)
    )


@contextlib.asynccontextmanager
async def clients(
    url: str,
    number: int,
    load: Load,
    bodies: Next,
    pause_s: float = 0.0,
) -> AsyncIterator[None]:
    """So many clients that ask all the time while the block runs."""
    ended = asyncio.Event()

    async def one(client: aiohttp.ClientSession) -> None:
        while not ended.is_set():
            status = await load.ask(client, *bodies())
            if status == 503:
                await asyncio.sleep(0.2)
            elif pause_s:
                await asyncio.sleep(pause_s)

    async with session(url) as client:
        tasks = [asyncio.create_task(one(client)) for _ in range(number)]
        try:
            yield
        finally:
            ended.set()
            await asyncio.gather(*tasks)


async def arrivals(
    url: str,
    per_s: float,
    seconds: float,
    load: Load,
    bodies: Next,
) -> None:
    """So many requests a second, each sent when its time has come: nobody waits for an answer."""
    async with session(url) as client:
        begun = time.monotonic()
        sent = []
        for number in range(round(per_s * seconds)):
            await asyncio.sleep(max(0.0, begun + number / per_s - time.monotonic()))
            sent.append(asyncio.create_task(load.ask(client, *bodies())))
        await asyncio.gather(*sent)
