"""PgQueuer on PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import asyncpg
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job

from bench.peers import witness

REQUIREMENTS = ["pgqueuer[asyncpg]>=1.6,<2", "uvloop"]
PACKAGES = ["pgqueuer", "asyncpg"]
SERVICE = "postgres"
PACE = 14_000
SETTINGS = (
    "2 processes, batches of 500, uvloop, synchronous_commit off (as safe as the Redis of the others: not through a power "
    "cut); heartbeat time-out 5 s in the crash test"
)

_queries: list[Queries] = []


async def _connect() -> asyncpg.Connection:
    return await asyncpg.connect(os.environ["BENCH_URL"])


async def prepare() -> None:
    connection = await _connect()
    _queries.append(Queries(AsyncpgDriver(connection)))
    await _queries[0].install()


async def enqueue(task: str, argument: Any) -> None:
    await _queries[0].enqueue(task, str(argument).encode())


async def enqueue_many(task: str, arguments: list[Any]) -> None:
    payloads: list[bytes | None] = [str(argument).encode() for argument in arguments]
    await _queries[0].enqueue([task] * len(payloads), payloads, [0] * len(payloads))


async def create() -> PgQueuer:
    """What `pgq run` runs."""
    runner = PgQueuer(AsyncpgDriver(await _connect()))

    @runner.entrypoint("noop")
    async def noop(job: Job) -> None:
        witness.count(job.payload)

    @runner.entrypoint("stamp")
    async def stamp(job: Job) -> None:
        witness.stamp(float(job.payload or b""))

    @runner.entrypoint("slow")
    async def slow(job: Job) -> None:
        await asyncio.sleep(witness.NAP)
        witness.mark(int(job.payload or b""))

    return runner


def workers(purpose: str) -> list[list[str]]:
    options = [
        "--batch-size",
        "500",
        "--heartbeat-timeout",
        "5" if purpose == "crash" else "30",
        "--log-level",
        "ERROR",
    ]
    command = [sys.executable, "-m", "pgqueuer", "run", "bench.peers.adapters.pgqueuer:create", *options]
    return [command] * (1 if purpose == "latency" else 2)
