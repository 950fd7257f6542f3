import asyncio

import pytest

from rag_cluster.errors import ServiceError
from rag_cluster.models.together import together


def test_results_stand_in_the_order_of_the_calls():
    async def late(number):
        await asyncio.sleep(0.02 * (3 - number))
        return number

    assert asyncio.run(together(late(number) for number in range(3))) == [0, 1, 2]
    assert asyncio.run(together([])) == []


def test_the_first_error_ends_the_other_calls():
    ended = []

    async def call(number):
        if number == 1:
            raise ServiceError("no")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append(number)
            raise

    async def run():
        with pytest.raises(ServiceError, match="no"):
            await together(call(number) for number in range(3))
        await asyncio.sleep(0)

    asyncio.run(run())
    assert ended == [0, 2]


def test_who_stops_waiting_ends_all_calls():
    ended = []

    async def call(number):
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(number)

    async def run():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await together(call(number) for number in range(3))
        await asyncio.sleep(0)

    asyncio.run(run())
    assert ended == [0, 1, 2]
