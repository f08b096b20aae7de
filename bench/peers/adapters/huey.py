"""Huey on Redis. It has no acknowledgement: a job is gone from Redis before it runs."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from huey import RedisHuey

from bench.peers import witness

REQUIREMENTS = ["huey>=3.5,<4", "redis", "hiredis"]
PACKAGES = ["huey", "redis"]
PACE = 5_000
SETTINGS = "one consumer of 2 processes, blocking pop, no results, no periodic tasks"

huey = RedisHuey("bench", url=os.environ["BENCH_URL"], results=False)


@huey.task()
def noop(argument: Any) -> None:
    witness.count(argument)


@huey.task()
def stamp(sent: float) -> None:
    witness.stamp(sent)


@huey.task()
def slow(number: int) -> None:
    witness.begin(number)
    time.sleep(witness.NAP)
    witness.mark(number)


TASKS = {"noop": noop, "stamp": stamp, "slow": slow}


def prepare() -> None:
    huey.pending_count()


def enqueue(task: str, argument: Any) -> None:
    TASKS[task](argument)


def workers(purpose: str) -> list[list[str]]:
    size = ["-k", "process", "-w", "1" if purpose == "latency" else "2"]
    return [[sys.executable, "-m", "huey.bin.huey_consumer", "bench.peers.adapters.huey.huey", "-q", "-n", *size]]
