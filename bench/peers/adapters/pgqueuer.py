"""PgQueuer on PostgreSQL. Its command `pgq run` (1.6, typer 0.29) does not start: this module does the same."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer, Queries
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job

from bench.peers import witness

REQUIREMENTS = ["pgqueuer[asyncpg]>=1.6,<2", "uvloop"]
PACKAGES = ["pgqueuer", "asyncpg"]
SERVICE = "postgres"
PACE = 14_000
SETTINGS = (
    "2 processes, batches of 500, uvloop, synchronous_commit off (as safe as the Redis of the others: not through a "
    "power cut); in the crash test heartbeat time-out 5 s, looked after every second"
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
    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    runner = PgQueuer(AsyncpgDriver(await _connect()))

    @runner.entrypoint("noop")
    async def noop(job: Job) -> None:
        witness.count(job.payload)

    @runner.entrypoint("stamp")
    async def stamp(job: Job) -> None:
        witness.stamp(float(job.payload or b""))

    @runner.entrypoint("slow")
    async def slow(job: Job) -> None:
        witness.begin(int(job.payload or b""))
        await asyncio.sleep(witness.NAP)
        witness.mark(int(job.payload or b""))

    return runner


def workers(purpose: str) -> list[list[str]]:
    return [[sys.executable, "-m", "bench.peers.adapters.pgqueuer", purpose]] * (1 if purpose == "latency" else 2)


async def work(purpose: str) -> None:
    runner = await create()
    # By default it looks for what dead workers held every 30 seconds.
    patience = {"dequeue_timeout": timedelta(seconds=1), "heartbeat_timeout": timedelta(seconds=5)}
    await runner.run(batch_size=500, **(patience if purpose == "crash" else {}))


if __name__ == "__main__":
    uvloop.run(work(sys.argv[1]))
