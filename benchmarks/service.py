"""The query service under load: latency, throughput, version switch, kill, overload, soak.

    python -m benchmarks.service [--chunks N] [--parts NAME...] [--collection PATH]

The service is started as users start it, `rag-cluster serve --ray` or, with `--one-process`, in one
process, over a collection of generated documents of one chunk each (see `search_latency`), and
asked over HTTP by asynchronous clients in this process. They share the machine's processors with
it. Parts:

- latency     hybrid search by one client, beside the same search in this process
- throughput  32 clients, on Ray and in one process, a plain FastAPI process
- switch      16 clients while a new version is published
- kill        8 clients while one of two retriever replicas is killed, on Ray
- overload    five times as many requests a second as are answered, whether or not answers come
- soak        a mix of requests; what the replicas' memory grows by
- first-token streamed answers of a language model in the service (vLLM): seconds to the first token
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import httpx2 as httpx
import numpy as np
import psutil

from benchmarks.http_load import Load, Next, arrivals, clients, session
from benchmarks.search_latency import ingest, texts
from rag_cluster.answer.query import Engine
from rag_cluster.storage import current_version

PARTS = ("latency", "throughput", "switch", "kill", "overload", "soak", "first-token")
REPLICA = "ray::ServeReplica:rag-cluster:"
ON_RAY, IN_ONE = "--ray", "--one-process"
OVERLOAD_CLIENTS = 32  # as many as the service works on at a time


def searches(seed: int) -> Next:
    """Searches for ever other words."""
    queries = texts(1_000_000, 7, seed)
    return lambda: ("/v1/search", {"query": next(queries)})


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(command: Sequence[str], port: int) -> Iterator[tuple[str, float]]:
    """A service as a process: its url, and the seconds until it was ready."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        command, env=os.environ | {"RAY_ADDRESS": ""}, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            if process.poll() is not None:
                raise SystemExit(f"the service ended with {process.returncode}: {command}")
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(f"{url}/readyz").status_code == 200:
                    break
            time.sleep(0.1)
        yield url, round(time.perf_counter() - begun, 1)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def served(
    path: Path, where: str, *settings: str
) -> contextlib.AbstractContextManager[tuple[str, float]]:
    """`rag-cluster serve` with ON_RAY or IN_ONE."""
    port = free_port()
    command = ["rag-cluster", "serve", where, "--collection", str(path), "--port", str(port)]
    command[0] = str(Path(sys.executable).parent / command[0])
    return running([*command, *(w for s in settings for w in ("--set", s))], port)


def replicas(name: str = "") -> list[psutil.Process]:
    """The replicas of a deployment, or all."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if line.startswith(f"{REPLICA}{name}"):
            found.append(process)
    return found


def memory() -> dict[str, float]:
    """Resident MiB of each replica, or of the one process, by its name and process."""
    found = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            line = process.cmdline() or [""]
            if line[0].startswith(REPLICA):
                # The method that is at work may stand behind the deployment's name.
                name = line[0].removeprefix(REPLICA).partition(".")[0]
            elif IN_ONE in line and "serve" in line:
                name = "service"
            else:
                continue
            found[f"{name} {process.pid}"] = process.memory_info().rss / 2**20
    return found


async def latency(path: Path, where: str, count: int = 300, warm_up: int = 50) -> dict[str, Any]:
    """One client over HTTP and the same queries in this process, in turns of fifty."""
    engine = Engine.open(path)
    queries = list(texts(count + warm_up, 7, 1))
    over: list[float] = []
    inside: list[float] = []
    with served(path, where) as (url, ready_s):
        async with session(url) as client:
            for start in range(0, len(queries), 50):
                part = queries[start : start + 50]
                for query in part:
                    begun = time.perf_counter()
                    async with client.post("/v1/search", json={"query": query}) as reply:
                        reply.raise_for_status()
                        await reply.read()
                    over.append((time.perf_counter() - begun) * 1e3)
                for query in part:
                    begun = time.perf_counter()
                    await engine.search(query)
                    inside.append((time.perf_counter() - begun) * 1e3)
    http, own = (float(np.median(times[warm_up:])) for times in (over, inside))
    return {
        "ready_s": ready_s, "http_p50_ms": round(http, 1), "in_process_p50_ms": round(own, 1),
        "ratio": round(http / own, 2),
    }  # fmt: skip


async def throughput(path: Path, seconds: float) -> dict[str, Any]:
    """32 clients on Ray Serve, then on the same API in one process."""
    told: dict[str, Any] = {}
    for where in (ON_RAY, IN_ONE):
        with served(path, where) as (url, ready_s):
            load = Load()
            async with clients(url, 32, load, searches(2)):
                await asyncio.sleep(seconds)
            half = [load.latency(0, seconds / 2), load.latency(seconds / 2)]
            told[where] = {
                **load.latency(), "ready_s": ready_s, "statuses": load.statuses,
                "halves_p50_ms": [part.get("p50_ms") for part in half],
            }  # fmt: skip
    return told


async def switch(path: Path, where: str, seconds: float) -> dict[str, Any]:
    """16 clients while a document is added and published."""
    load = Load()
    with (
        served(path, where, "service.poll_s=1") as (url, _),
        tempfile.TemporaryDirectory() as folder,
    ):
        (Path(folder) / "news.txt").write_text("A comet was seen.\n")
        program = str(Path(sys.executable).parent / "rag-cluster")
        async with clients(url, 16, load, searches(3)):
            ingesting = await asyncio.create_subprocess_exec(
                program, "ingest", folder, "--collection", str(path),
                env=os.environ | {"RAY_ADDRESS": ""}, stdout=subprocess.DEVNULL,
            )  # fmt: skip
            await ingesting.wait()
            wanted = current_version(path)
            end = time.monotonic() + 120
            while not load.versions[str(wanted)] and time.monotonic() < end:
                await asyncio.sleep(0.2)
            await asyncio.sleep(seconds / 6)
    return {"statuses": load.statuses, "versions": dict(load.versions), "errors": dict(load.errors)}


async def kill(path: Path) -> dict[str, Any]:
    """8 clients while one of two retrievers is killed."""
    load = Load()
    two = ("service.retriever.min_replicas=2", "service.retriever.max_replicas=2")
    with served(path, ON_RAY, *two) as (url, _):
        async with clients(url, 8, load, searches(4)):
            await asyncio.sleep(5)
            before = {process.pid for process in replicas("Retriever")}
            victim = min(before)
            begun = time.perf_counter()
            os.kill(victim, signal.SIGKILL)
            while len({p.pid for p in replicas("Retriever")} - {victim}) < 2:
                await asyncio.sleep(0.2)
            started = time.perf_counter() - begun
            async with httpx.AsyncClient(base_url=url) as client:
                while (await client.get("/readyz")).status_code != 200:
                    await asyncio.sleep(0.2)
            await asyncio.sleep(10)
    failed = sum(n for status, n in load.statuses.items() if status != "200")
    return {"failed": failed, "errors": dict(load.errors), "back_s": round(started, 1),
            "statuses": load.statuses}  # fmt: skip


async def overload(path: Path, where: str, seconds: float) -> dict[str, Any]:
    """As many requests as are answered, then five times as many, then as before; all by default."""
    with served(path, where) as (url, _):
        normal = Load()
        async with clients(url, OVERLOAD_CLIENTS, normal, searches(5)):
            await asyncio.sleep(seconds / 2)
        usual = normal.latency()
        before = sum(memory().values())
        over = Load()
        await arrivals(url, 5 * usual["per_s"], seconds, over, searches(6))
        after = Load()
        grown = sum(memory().values()) - before
        async with clients(url, OVERLOAD_CLIENTS, after, searches(7)):
            await asyncio.sleep(10)
    slow = [at + ms / 1e3 for at, ms, _ in after.seen if ms > 2 * usual["p50_ms"]]
    return {
        "normal": usual,
        "offered_per_s": round(5 * usual["per_s"], 1),
        "overload": over.latency() | {"statuses": over.statuses, "errors": dict(over.errors)},
        "p99_ratio": round(over.latency()["p99_ms"] / usual["p99_ms"], 2),
        "memory_mib": [round(before, 1), round(before + grown, 1)],
        "normal_again_s": round(max(slow, default=0.0), 1),
    }


async def soak(path: Path, where: str, seconds: float) -> dict[str, Any]:
    """A mix of requests; memory after two minutes (or a fifth of the time) and at the end."""
    load = Load()
    queries = texts(1_000_000, 7, 8)
    turn = iter(range(1_000_000_000))

    def mixed() -> tuple[str, dict[str, Any]]:
        query = next(queries)
        match next(turn) % 8:
            case 0:
                return "/v1/ask", {"question": query}
            case 1:
                return "/v1/embeddings", {"input": [query]}
            case 2:
                return "/v1/rerank", {"query": query, "documents": [query, "another text"]}
            case 3:
                return "/v1/search", {"query": query, "channels": ["bm25"], "top_k": 50}
            case _:
                return "/v1/search", {"query": query}

    with served(path, where) as (url, _):
        async with clients(url, 4, load, mixed, pause_s=0.05):
            await asyncio.sleep(min(120, seconds / 5))
            first = memory()
            await asyncio.sleep(seconds - min(120, seconds / 5))
            last = memory()
    growth = {
        name: round(100 * (last[name] / first[name] - 1), 2) for name in first if name in last
    }
    return {"seconds": seconds, "growth_percent": growth, "statuses": load.statuses,
            **load.latency(), "errors": dict(load.errors)}  # fmt: skip


async def first_token(path: Path, model: str, count: int = 8) -> dict[str, Any]:
    """Questions one by one, each twice: the second time its prompt is in the engine's cache."""
    settings = (
        "generate.kind=vllm", f"generate.model={model}", "generate.max_tokens=24",
        "generate.engine_kwargs={max_model_len: 4096}", "service.generator.cpus=1",
        "answer.budget_tokens=300", "service.limits.deadline_ms=600000",
    )  # fmt: skip
    found: dict[str, list[float]] = {"first": [], "again": []}
    questions = texts(count + 1, 7, 9)
    with served(path, ON_RAY, *settings) as (url, _):
        async with session(url) as client:
            await _seconds_to_token(client, next(questions))  # and until the engine is up
            for question in questions:
                for seconds in found.values():
                    seconds.append(await _seconds_to_token(client, question))
    return {f"{name}_p50_s": round(float(np.median(seconds)), 2) for name, seconds in found.items()}


async def _seconds_to_token(client: aiohttp.ClientSession, question: str) -> float:
    begun = time.perf_counter()
    body = {"question": question, "stream": True}
    timeout = aiohttp.ClientTimeout(600)
    async with client.post("/v1/ask", json=body, timeout=timeout) as reply:
        seconds = float("nan")
        async for line in reply.content:
            if line.startswith(b"event: token") and np.isnan(seconds):
                seconds = time.perf_counter() - begun
    return seconds


async def measure(options: argparse.Namespace, path: Path) -> dict[str, Any]:
    """The figures of the parts that are asked for."""
    told: dict[str, Any] = {}
    where = IN_ONE if options.one_process else ON_RAY
    for part in options.parts:
        match part:
            case "latency":
                told[part] = await latency(path, where)
            case "throughput":
                told[part] = await throughput(path, options.seconds)
            case "switch":
                told[part] = await switch(path, where, options.seconds)
            case "kill":
                told[part] = await kill(path)
            case "overload":
                told[part] = await overload(path, where, options.seconds / 2)
            case "first-token":
                told[part] = await first_token(path, options.model)
            case _:
                told[part] = await soak(path, where, options.soak_seconds)
        print(json.dumps({part: told[part]}), flush=True)
    return told


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the parts, and prints a line of JSON for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=60, help="words of a chunk")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS[:-1])
    parser.add_argument(IN_ONE, action="store_true", help="and not on Ray")
    parser.add_argument("--seconds", type=float, default=60, help="of a load")
    parser.add_argument("--soak-seconds", type=float, default=600)
    parser.add_argument("--collection", type=Path, help="kept here, and served if it is there")
    parser.add_argument("--model", default="local-llm", help="of the part first-token")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = options.collection or Path(folder) / "collection"
        if not path.exists() or current_version(path) is None:
            ingest(path, options.chunks, options.words, [])
        told = asyncio.run(measure(options, path))
    if options.json:
        options.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
