"""Turns of the encoder, and places of requests."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from small_corpus import FAKE

from rag_cluster import config
from rag_cluster.config import Replicas
from serve.api.errors import ApiError
from serve.api.places import Places
from serve.models import PIECE, Encoding
from serve.turns import Turns


def test_the_lowest_rank_goes_first_and_those_who_leave_are_passed_over() -> None:
    async def run() -> list[str]:
        turns, done, hold = Turns(), [], asyncio.Event()

        async def work(name: str, rank: int) -> None:
            async with turns.turn(rank):
                await hold.wait()
                done.append(name)

        names = [("first", 1), ("late", 1), ("leaves", 0), ("query", 0), ("later", 1)]
        tasks = [asyncio.create_task(work(*one)) for one in names]
        await asyncio.sleep(0)
        tasks[2].cancel()
        hold.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        async with turns.turn(5):  # and nobody holds it now
            done.append("free")
        return done

    assert asyncio.run(run()) == ["first", "query", "late", "later", "free"]


def test_who_leaves_as_the_turn_comes_hands_it_on() -> None:
    async def run() -> bool:
        turns = Turns()

        async def work(go: asyncio.Event) -> None:
            async with turns.turn(0):
                await go.wait()

        first, second = asyncio.Event(), asyncio.Event()
        one, two = asyncio.create_task(work(first)), asyncio.create_task(work(second))
        await asyncio.sleep(0)
        first.set()
        await one  # the turn has just been given to two, which has not run yet
        two.cancel()
        await asyncio.gather(two, return_exceptions=True)
        async with asyncio.timeout(1), turns.turn(0):
            return True

    assert asyncio.run(run())


@pytest.mark.parametrize(("queued", "refused"), [(3, 5), (-1, 0)])
def test_more_than_work_and_wait_are_refused(queued: int, refused: int) -> None:
    async def run() -> tuple[int, list[object]]:
        limits = Replicas(max_ongoing_requests=2, max_queued_requests=queued)
        places, here, go = Places("the service", limits), [], asyncio.Event()

        async def work() -> None:
            async with places.place():
                here.append(1)
                await go.wait()

        tasks = [asyncio.create_task(work()) for _ in range(10)]
        await asyncio.sleep(0.01)
        at_work = len(here)
        go.set()
        return at_work, await asyncio.gather(*tasks, return_exceptions=True)

    at_work, ended = asyncio.run(run())
    errors = [error for error in ended if error is not None]
    assert at_work == 2
    assert len(errors) == refused
    for error in errors:
        assert isinstance(error, ApiError)
        assert (error.status, error.headers["Retry-After"]) == (503, "1")


def test_many_texts_are_encoded_piece_by_piece_and_can_be_left_between() -> None:
    encoding = Encoding(config.load(None, FAKE))
    texts = [f"text number {number}" for number in range(PIECE * 2 + 3)]

    async def run() -> None:
        vectors = await encoding.encode(texts, "passage")
        assert vectors.shape[0] == len(texts)
        one_by_one = [await encoding.encode([text], "passage") for text in texts]
        assert np.allclose(vectors, np.concatenate(one_by_one), atol=1e-5)
        scores = await encoding.late_interaction("number 7", texts)
        assert scores.shape == (len(texts),)
        assert np.allclose(scores[:1], await encoding.late_interaction("number 7", texts[:1]))
        assert (await encoding.late_interaction("number 7", [])).shape == (0,)
        assert (await encoding.encode([], "passage")).shape == (0, vectors.shape[1])
        # A query goes between the pieces of what was asked before it, which is then left.
        long = asyncio.create_task(encoding.encode(texts * 50, "passage"))
        await asyncio.sleep(0)
        await encoding.encode(["a query"])
        assert not long.done()
        long.cancel()
        await asyncio.gather(long, return_exceptions=True)
        assert long.cancelled()

    asyncio.run(run())
