"""arq."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from arq import create_pool, func
from arq.connections import ArqRedis, RedisSettings

from bench.peers import witness

REQUIREMENTS = ["arq>=0.28,<1", "hiredis"]
PACKAGES = ["arq", "redis"]
PACE = 1_100
SETTINGS = (
    "2 processes, 100 jobs at once, polling every 5 ms (0.5 s by default), no results; job time-out 5 s in the crash "
    "test"
)

SERVER = RedisSettings.from_dsn(os.environ["BENCH_URL"])


async def noop(context: dict[str, Any], argument: Any) -> None:
    witness.count(argument)


async def stamp(context: dict[str, Any], sent: float) -> None:
    witness.stamp(sent)


async def slow(context: dict[str, Any], number: int) -> None:
    witness.begin(number)
    await asyncio.sleep(witness.NAP)
    witness.mark(number)


class WorkerSettings:
    functions = (func(noop, name="noop"), func(stamp, name="stamp"), func(slow, name="slow"))
    redis_settings = SERVER
    max_jobs = 100
    poll_delay = 0.005
    keep_result = 0
    job_timeout = 5 if os.environ.get("BENCH_PURPOSE") == "crash" else 300
    log_results = False


_pool: list[ArqRedis] = []


async def prepare() -> None:
    _pool.append(await create_pool(SERVER))


async def enqueue(task: str, argument: Any) -> None:
    await _pool[0].enqueue_job(task, argument)


def workers(purpose: str) -> list[list[str]]:
    quiet = "bench.peers.adapters.arq.QUIET"
    command = [sys.executable, "-m", "arq", "bench.peers.adapters.arq.WorkerSettings", "--custom-log-dict", quiet]
    return [command] * (1 if purpose == "latency" else 2)


QUIET = {"version": 1, "disable_existing_loggers": False, "loggers": {"arq": {"level": "ERROR"}}}
