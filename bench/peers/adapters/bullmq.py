"""BullMQ's Python package. It has no command for workers: this module is one when run."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from bullmq import Queue, Worker

from bench.peers import witness

REQUIREMENTS = ["bullmq>=3.4,<4", "hiredis"]
PACKAGES = ["bullmq", "redis"]
PACE = 1_500
SETTINGS = "2 processes, 100 jobs at once, done jobs removed; in the crash test locks of 5 s, looked after every second"

URL = os.environ["BENCH_URL"]
OPTIONS = {"removeOnComplete": True, "attempts": 3}
CRASH = {"lockDuration": 5_000, "stalledInterval": 1_000, "maxStalledCount": 10}

_queue: list[Queue] = []


async def prepare() -> None:
    _queue.append(Queue("bench", {"connection": URL}))


async def enqueue(task: str, argument: Any) -> None:
    await _queue[0].add(task, {"argument": argument}, OPTIONS)


async def enqueue_many(task: str, arguments: list[Any]) -> None:
    await _queue[0].addBulk([{"name": task, "data": {"argument": argument}, "opts": OPTIONS} for argument in arguments])


def workers(purpose: str) -> list[list[str]]:
    return [[sys.executable, "-m", "bench.peers.adapters.bullmq"]] * (1 if purpose == "latency" else 2)


async def process(job: Any, token: str) -> None:
    argument = job.data["argument"]
    match job.name:
        case "noop":
            witness.count(argument)
        case "stamp":
            witness.stamp(argument)
        case "slow":
            witness.begin(argument)
            await asyncio.sleep(witness.NAP)
            witness.mark(argument)


async def work() -> None:
    crash = CRASH if os.environ.get("BENCH_PURPOSE") == "crash" else {}
    Worker("bench", process, {"connection": URL, "concurrency": 100, **crash})
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(work())
