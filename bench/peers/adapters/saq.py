"""SAQ on Redis."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from saq import Queue

from bench.peers import witness

REQUIREMENTS = ["saq[hiredis]>=0.26,<1", "typing_extensions"]
PACKAGES = ["saq", "redis"]
PACE = 2_800
SETTINGS = (
    "2 processes, 100 jobs at once, no results; in the crash test job time-out 5 s, 3 retries and a sweep every second"
)

queue = Queue.from_url(os.environ["BENCH_URL"])


async def noop(context: Any, *, argument: Any) -> None:
    witness.count(argument)


async def stamp(context: Any, *, argument: float) -> None:
    witness.stamp(argument)


async def slow(context: Any, *, argument: int) -> None:
    witness.begin(argument)
    await asyncio.sleep(witness.NAP)
    witness.mark(argument)


settings = {
    "queue": queue,
    "functions": [noop, stamp, slow],
    "concurrency": 100,
    "timers": {"sweep": 1} if os.environ.get("BENCH_PURPOSE") == "crash" else {},
}


async def prepare() -> None:
    await queue.connect()


async def enqueue(task: str, argument: Any) -> None:
    if task == "slow":
        await queue.enqueue(task, argument=argument, ttl=-1, timeout=5, retries=4)
    else:
        await queue.enqueue(task, argument=argument, ttl=-1)


def workers(purpose: str) -> list[list[str]]:
    count = 1 if purpose == "latency" else 2
    return [[sys.executable, "-m", "saq", "bench.peers.adapters.saq.settings", "--quiet"]] * count
