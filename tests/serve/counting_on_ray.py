"""Tells every metric in a replica of Ray Serve, and prints what the nodes' agents export of it."""

import asyncio
import json
import logging
import sys
import tempfile
import time

import ray
from prometheus_client.parser import text_string_to_metric_families
from ray import serve

from serve.metrics import METRICS, RayMeters

WAIT_S = 120
# More than two of the intervals of a second that the test asks for.
STALE_S = 5


@serve.deployment(num_replicas=1, ray_actor_options={"num_cpus": 0})
class Counting:
    """Has every metric told once; a counter twice, beside a nothing."""

    def __init__(self):
        self.meters = RayMeters()

    def tell(self):
        for metric in METRICS:
            labels = dict.fromkeys(metric.labels, "some")
            match metric.kind:
                case "counter":
                    for value in (1, 0, 2):
                        self.meters.add(metric, value, **labels)
                case "gauge":
                    self.meters.set(metric, 5, **labels)
                case "histogram":
                    self.meters.observe(metric, 0.3, **labels)

    async def text(self):
        return await self.meters.text()


async def main():
    """The text of the application at first and after a while, and of another one."""
    one = serve.run(Counting.bind(), name="one", route_prefix=None)
    two = serve.run(Counting.bind(), name="two", route_prefix=None)
    await one.tell.remote()
    until = time.monotonic() + WAIT_S
    while len(list(text_string_to_metric_families(text := await one.text.remote()))) < len(METRICS):
        assert time.monotonic() < until, text
        await asyncio.sleep(0.5)
    await asyncio.sleep(STALE_S)
    told = {"one": text, "later": await one.text.remote(), "two": await two.text.remote()}
    print(json.dumps(told), file=sys.stdout, flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        ray.init(
            num_cpus=1, include_dashboard=False, log_to_driver=False, _temp_dir=folder,
            logging_level=logging.ERROR,
        )  # fmt: skip
        serve.start(proxy_location="Disabled")
        asyncio.run(main())
        ray.shutdown()
