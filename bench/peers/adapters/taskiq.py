"""taskiq with its Redis stream broker."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from taskiq_redis import RedisStreamBroker

from bench.peers import witness

REQUIREMENTS = ["taskiq>=0.13,<1", "taskiq-redis>=1.2,<2", "hiredis"]
PACKAGES = ["taskiq", "taskiq-redis", "redis"]
PACE = 3_500
SETTINGS = (
    "2 processes, 100 async tasks at once, reads of 100, no argument parsing, no results, acknowledged when executed; "
    "idle time-out 5 s in the crash test"
)

broker = RedisStreamBroker(
    os.environ["BENCH_URL"],
    consumer_id="0",  # jobs that were there before the first worker count too
    xread_count=100,
    idle_timeout=5_000 if os.environ.get("BENCH_PURPOSE") == "crash" else 600_000,
)


@broker.task(task_name="noop")
async def noop(argument: Any) -> None:
    witness.count(argument)


@broker.task(task_name="stamp")
async def stamp(sent: float) -> None:
    witness.stamp(sent)


@broker.task(task_name="slow")
async def slow(number: int) -> None:
    witness.begin(number)
    await asyncio.sleep(witness.NAP)
    witness.mark(number)


TASKS = {"noop": noop, "stamp": stamp, "slow": slow}


async def prepare() -> None:
    await broker.startup()


async def enqueue(task: str, argument: Any) -> None:
    await TASKS[task].kiq(argument)


def workers(purpose: str) -> list[list[str]]:
    size = ["--workers", "1" if purpose == "latency" else "2", "--max-async-tasks", "100", "--max-prefetch", "100"]
    lean = ["--no-parse", "--ack-type", "when_executed", "--log-level", "ERROR"]
    return [[sys.executable, "-m", "taskiq", "worker", "bench.peers.adapters.taskiq:broker", *size, *lean]]
